{{- /* Names and labels. A component is one of encoder, searcher, leaf, indexer, build, maintenance, push and
     bulk. */ -}}

{{- define "dyad.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* By which a component's pods are found: (list $ "searcher"). */ -}}
{{- define "dyad.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{- define "dyad.labels" -}}
{{- $root := first . -}}
{{ include "dyad.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The image of a program: (list $ "searcher"). */ -}}
{{- define "dyad.image" -}}
{{- $image := (first .).Values.image -}}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
dyad-{{ last . }}:{{ default (first .).Chart.AppVersion $image.tag }}
{{- end -}}

{{- define "dyad.scheme" -}}
{{- ternary "https" "http" (ne .Values.security.tlsSecret "") -}}
{{- end -}}

{{- /* The encoder service that searchers, the indexer and jobs ask; empty where there is none. */ -}}
{{- define "dyad.encoderUrl" -}}
{{- if .Values.encoder.enabled -}}
{{ include "dyad.scheme" . }}://{{ include "dyad.fullname" . }}-encoder:7701
{{- else -}}
{{ .Values.encoderUrl }}
{{- end -}}
{{- end -}}

{{- /* Whether searchers are a StatefulSet: with a disk, or names by which the indexer has them reload. */ -}}
{{- define "dyad.searchersHaveNames" -}}
{{- if or (eq .Values.index.source "volume") .Values.searcher.cache.persistent -}}true{{- end -}}
{{- end -}}

{{- define "dyad.indexClaim" -}}
{{- default (printf "%s-index" (include "dyad.fullname" .)) .Values.index.volume.existingClaim -}}
{{- end -}}
