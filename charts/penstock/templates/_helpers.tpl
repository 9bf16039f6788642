{{/* The chart's name, in object names and labels. */}}
{{- define "penstock.chart" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 44 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of all object names: the release's name, followed by the chart's if it does not contain it. */}}
{{- define "penstock.name" -}}
{{- $chart := include "penstock.chart" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 44 | trimSuffix "-" -}}
{{- else if contains $chart .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 35 | trimSuffix "-") $chart | trunc 44 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "penstock.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end -}}

{{/* Prefix of the names of cluster-scoped objects: releases with the same name can coexist in scope Namespaces. */}}
{{- define "penstock.clusterName" -}}
{{- $name := include "penstock.name" . -}}
{{- if eq .Values.scope "Namespaces" -}}
{{- $name = printf "%s-%s" $name (include "penstock.namespace" .) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "penstock.operator" -}}
{{ include "penstock.name" . }}-operator
{{- end -}}

{{- define "penstock.serviceAccount" -}}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.create is false and serviceAccount.name is empty: name an existing ServiceAccount, or let the chart create one" -}}
{{- end -}}
{{ .Values.serviceAccount.name | default (include "penstock.operator" .) }}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ include "penstock.chart" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Labels of every object but the checks': the selector's are among them. */}}
{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
{{ include "penstock.releaseLabels" . }}
{{- end -}}

{{- define "penstock.checkLabels" -}}
app.kubernetes.io/name: {{ include "penstock.chart" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: check
{{ include "penstock.releaseLabels" . }}
{{- end -}}

{{- define "penstock.batchesSelector" -}}
app.kubernetes.io/name: {{ include "penstock.chart" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: batches
{{- end -}}

{{- define "penstock.batchesLabels" -}}
{{ include "penstock.batchesSelector" . }}
{{ include "penstock.releaseLabels" . }}
{{- end -}}

{{- define "penstock.releaseLabels" -}}
app.kubernetes.io/part-of: penstock
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ include "penstock.userLabels" . }}
{{- end }}
{{- end -}}

{{/* Labels from the values, which must not replace the chart's. */}}
{{- define "penstock.userLabels" -}}
{{- range $key, $_ := . -}}
{{- if regexMatch "^(app\\.kubernetes\\.io/(name|instance|component|part-of|managed-by|version)|helm\\.sh/chart)$" $key -}}
{{- fail (printf "label %s is set by the chart: remove it from commonLabels, podLabels and other labels in the values" $key) -}}
{{- end -}}
{{- end -}}
{{ toYaml . }}
{{- end -}}

{{/* Labels of an object that has its own, from (list . OWN); the object's own win over the common ones. */}}
{{- define "penstock.ownLabels" -}}
{{- $own := include "penstock.userLabels" (last .) | fromYaml -}}
{{- merge (dict) $own (include "penstock.labels" (first .) | fromYaml) | toYaml -}}
{{- end -}}

{{/* Member `annotations` of an object, from (list . OWN): the common ones and the object's own, which win. */}}
{{- define "penstock.annotations" -}}
{{- $root := first . -}}
{{- with merge (dict) (last .) $root.Values.commonAnnotations -}}
annotations: {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Subject of the operator in bindings. */}}
{{- define "penstock.subjects" -}}
- kind: ServiceAccount
  name: {{ include "penstock.serviceAccount" . | quote }}
  namespace: {{ include "penstock.namespace" . | quote }}
{{- end -}}

{{/* Reference of an image, from (list IMAGE TAG): registry, repository, and the digest or the tag. */}}
{{- define "penstock.reference" -}}
{{- $image := first . -}}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (last .) }}{{ end }}
{{- end -}}

{{- define "penstock.image" -}}
{{- $why := "image.repository must be set: build operator/Dockerfile, push it, and name it without its tag" -}}
{{- $_ := required $why .Values.image.repository -}}
{{ include "penstock.reference" (list .Values.image .Chart.AppVersion) }}
{{- end -}}

{{/* The runtime image of pools that name none; defaultRuntimeImage is the alias of runtimeImage. */}}
{{- define "penstock.runtimeImage" -}}
{{- $image := .Values.runtimeImage -}}
{{- $alias := .Values.defaultRuntimeImage -}}
{{- if and $alias (or $image.registry $image.repository $image.tag $image.digest) -}}
{{- fail (printf "runtimeImage and its alias defaultRuntimeImage (%s) are both set: keep one, and remove the other, such as by --set defaultRuntimeImage=null" $alias) -}}
{{- end -}}
{{- if $alias -}}
{{ $alias }}
{{- else -}}
{{- $why := "runtimeImage.repository must be set: build runtime/Dockerfile, push it, and name it without its tag" -}}
{{- $_ := required $why $image.repository -}}
{{ include "penstock.reference" (list $image .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{/* Peers that may connect to the pods of pools: this operator by its namespace and labels, and the peers in the values. */}}
{{- define "penstock.poolPeers" -}}
{{- $namespace := dict "matchLabels" (dict "kubernetes.io/metadata.name" (include "penstock.namespace" .)) -}}
{{- $operator := dict "matchLabels" (include "penstock.selector" . | fromYaml) -}}
{{- $self := dict "namespaceSelector" $namespace "podSelector" $operator -}}
{{- dict "clusterPort" (prepend (.Values.poolNetworkPolicy.scrapers | default list) $self) "clientPort" .Values.poolNetworkPolicy.clients | toJson -}}
{{- end -}}
