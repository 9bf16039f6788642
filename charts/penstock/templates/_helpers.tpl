{{/* Name of everything in this release: the release's own, with the chart's where it does not say so. */}}
{{- define "penstock.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 35 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "penstock.operator" -}}
{{ include "penstock.name" . }}-operator
{{- end -}}

{{- define "penstock.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "penstock.operator" .) }}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/part-of: penstock
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "penstock.image" -}}
{{- $why := "image.repository must be set: build operator/Dockerfile, push it, and name it without its tag" -}}
{{- $repository := required $why .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Who may reach pools' pods: this operator by its namespace and labels, and whom the values name. */}}
{{- define "penstock.poolPeers" -}}
{{- $namespace := dict "matchLabels" (dict "kubernetes.io/metadata.name" .Release.Namespace) -}}
{{- $operator := dict "matchLabels" (include "penstock.selector" . | fromYaml) -}}
{{- $self := dict "namespaceSelector" $namespace "podSelector" $operator -}}
{{- dict "clusterPort" (prepend .Values.poolNetworkPolicy.scrapers $self) "clientPort" .Values.poolNetworkPolicy.clients | toJson -}}
{{- end -}}
