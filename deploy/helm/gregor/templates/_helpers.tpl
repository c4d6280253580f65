{{- define "gregor.labels" -}}
app.kubernetes.io/name: gregor-operator
app.kubernetes.io/part-of: gregor
{{- end }}

{{- define "gregor.consoleLabels" -}}
app.kubernetes.io/name: gregor-console
app.kubernetes.io/part-of: gregor
{{- end }}

{{- /* The name of an image in a registry, from a list of both. */}}
{{- define "gregor.image" -}}
{{- $registry := index . 0 | default "" | trimSuffix "/" }}
{{- if $registry }}{{ $registry }}/{{ end }}{{ index . 1 }}
{{- end }}

{{- define "gregor.kafkaImages" -}}
{{- $images := list }}
{{- range $version, $image := .Values.kafkaImages }}
{{- $images = append $images (printf "%s=%s" $version (include "gregor.image" (list $.Values.imageRegistry $image))) }}
{{- end }}
{{- join " " $images }}
{{- end }}
