// The script in a flame graph: zoom and search. No name is in it; what it shows of a name goes
// through textContent. Without it the picture and its tooltips work too.
(function () {
  "use strict";
  var NS = "http://www.w3.org/2000/svg";
  var svg = document.documentElement;
  var boxes = Array.prototype.slice.call(document.querySelectorAll("g.b")).map(function (g) {
    return {
      g: g, rect: g.querySelector("rect"), text: g.querySelector("text"),
      title: g.querySelector("title").textContent, at: +g.dataset.s, ns: +g.dataset.n, row: +g.dataset.r
    };
  });
  var all = boxes[0], zoomed = all, left = +svg.dataset.left, width = +svg.dataset.width, cell = +svg.dataset.cell;
  var height = svg.getAttribute("height"), holder, input;
  var details = document.getElementById("details"), found = document.getElementById("found");
  var reset = document.getElementById("reset"), idle = details.textContent;

  function name(box) {
    return box.title.split("\n")[0];
  }

  function cells(point) {
    return point.codePointAt(0) >= 0x1100 ? 2 : 1;
  }

  function fit(label, px) {
    var room = Math.floor((px - 6) / cell), out = "", used = 0, points = Array.from(label);
    if (room < 3) return "";
    for (var i = 0; i < points.length; i++) {
      used += cells(points[i]);
      if (used > room) return Array.from(out).slice(0, -2).join("") + "..";
      out += points[i];
    }
    return out;
  }

  function draw() {
    var scale = zoomed.ns ? width / zoomed.ns : 0, end = zoomed.at + zoomed.ns;
    boxes.forEach(function (box) {
      var from = Math.max(box.at, zoomed.at), to = Math.min(box.at + box.ns, end);
      var outside = to <= from && box !== zoomed;
      var px = (to - from) * scale, x = left + (from - zoomed.at) * scale;
      box.g.style.display = outside ? "none" : "";
      if (outside) return;
      box.rect.setAttribute("x", x.toFixed(3));
      box.rect.setAttribute("width", px.toFixed(3));
      box.text.setAttribute("x", (x + 3).toFixed(3));
      box.text.textContent = fit(name(box), px);
      box.g.classList.toggle("up", box.row < zoomed.row);
    });
    reset.style.display = zoomed === all ? "none" : "";
  }

  function zoom(box) {
    zoomed = box;
    draw();
  }

  function search(word) {
    var want = word.toLowerCase(), ns = 0, covered = -1, cnt = 0;
    boxes.forEach(function (box) {
      var hit = want !== "" && box.row > 0 && name(box).toLowerCase().indexOf(want) >= 0;
      box.hit = hit;
      box.g.classList.toggle("hit", hit);
    });
    // what lies in a match that is counted is not counted again
    boxes.filter(function (box) { return box.hit; }).sort(function (a, b) {
      return a.at - b.at || a.row - b.row;
    }).forEach(function (box) {
      cnt++;
      if (box.at < covered) return;
      ns += box.ns;
      covered = box.at + box.ns;
    });
    found.textContent = want === "" ? "" :
      cnt + " found, " + (all.ns ? 100 * ns / all.ns : 0).toFixed(1) + " % of the time";
  }

  boxes.forEach(function (box) {
    box.g.addEventListener("click", function () { zoom(box); });
    box.g.addEventListener("mouseenter", function () {
      details.textContent = box.title.replace(/\n/g, "   ");
    });
    box.g.addEventListener("mouseleave", function () { details.textContent = idle; });
  });
  reset.addEventListener("click", function () { zoom(all); });

  // As wide as the window is.
  function resize() {
    var outer = Math.max(window.innerWidth - 2, 600);
    width = outer - 2 * left;
    svg.setAttribute("width", String(outer));
    svg.setAttribute("viewBox", "0 0 " + outer + " " + height);
    holder.setAttribute("x", String(left + width - 220));
    reset.setAttribute("x", String(left + width));
    found.setAttribute("x", String(left + width));
    draw();
  }

  holder = document.createElementNS(NS, "foreignObject");
  input = document.createElementNS("http://www.w3.org/1999/xhtml", "input");
  holder.setAttribute("y", "6");
  holder.setAttribute("width", "220");
  holder.setAttribute("height", "26");
  input.setAttribute("type", "search");
  input.setAttribute("id", "search");
  input.setAttribute("placeholder", "search (/)");
  input.setAttribute("style", "width:212px;font:12px sans-serif");
  input.addEventListener("input", function () { search(input.value); });
  holder.appendChild(input);
  svg.appendChild(holder);

  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") {
      input.value = "";
      search("");
      zoom(all);
      input.blur();
    } else if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    }
  });
  window.addEventListener("resize", resize);
  resize();
})();
