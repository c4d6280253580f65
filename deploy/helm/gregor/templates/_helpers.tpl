{{- define "gregor.labels" -}}
app.kubernetes.io/name: gregor-operator
app.kubernetes.io/part-of: gregor
{{- end }}

{{- define "gregor.kafkaImages" -}}
{{- $images := list }}
{{- range $version, $image := .Values.kafkaImages }}
{{- $images = append $images (printf "%s=%s" $version $image) }}
{{- end }}
{{- join " " $images }}
{{- end }}
