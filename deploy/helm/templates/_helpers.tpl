{{- define "pyebpf.labels" -}}
app.kubernetes.io/part-of: pyebpf
{{- end }}
{{- define "pyebpf.settings" -}}
{{ toYaml .Values.config }}
{{- end }}
{{/* Other settings are another name: the pods are replaced. */}}
{{- define "pyebpf.configName" -}}
pyebpf-agent-{{ include "pyebpf.settings" . | sha256sum | trunc 10 }}
{{- end }}
{{- define "pyebpf.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
