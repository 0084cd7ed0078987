// SPDX-License-Identifier: Apache-2.0
// The inside of Grafana's flame graph panel, without a Grafana around it: show(panel, table) does with a panel of a
// dashboard what Grafana does, from the rows that its statement gave to the picture.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { of } from 'rxjs';
import { createDataFrame, createTheme, FieldType, standardTransformers } from '@grafana/data';
import { checkFields, FlameGraph } from '@grafana/flamegraph';

const BY_ID = Object.fromEntries(Object.values(standardTransformers).map(t => [t.id, t]));

// {names, rows} -> a frame with the types that a data source can tell of JSON
function frame({ names, rows }) {
  return createDataFrame({
    fields: names.map((name, i) => ({ name, type: rows.every(r => typeof r[i] === 'number') ? FieldType.number : FieldType.string, values: rows.map(r => r[i]) })),
  });
}

function transformed(panel, frames) {
  const steps = panel.transformations.map(t => BY_ID[t.id].operator(t.options, { interpolate: text => text }));
  return new Promise(done => of(frames).pipe(...steps).subscribe(done));
}

function configured(panel, data) {
  const fields = data.fields.map(f => ({ ...f, config: { ...f.config, ...panel.fieldConfig.defaults } }));
  return { ...data, fields };
}

// What the panel has to say against the frame, or null when it draws it.
window.show = async (panel, table) => {
  const [data] = await transformed(panel, [frame(table)]);
  const wrong = checkFields(data);
  if (wrong)
    return wrong;
  createRoot(document.getElementById('root')).render(
    <FlameGraph data={configured(panel, data)} getTheme={() => createTheme({ colors: { mode: 'light' } })} disableCollapsing />);
  return null;
};
