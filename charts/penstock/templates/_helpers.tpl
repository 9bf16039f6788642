{{/* Name of all objects of this release: the release's name, followed by the chart's if it does not contain it. */}}
{{- define "penstock.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 35 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* Name of cluster-scoped objects: releases with the same name can coexist in scope Namespaces. */}}
{{- define "penstock.clusterName" -}}
{{- $name := include "penstock.name" . -}}
{{- if eq .Values.scope "Namespaces" -}}
{{- $name = printf "%s-%s" $name .Release.Namespace -}}
{{- end -}}
{{- $name -}}
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

{{/* Subject of the operator in bindings. */}}
{{- define "penstock.subjects" -}}
- kind: ServiceAccount
  name: {{ include "penstock.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* Permissions in served namespaces: watch pools and manage their children. No nodes, no Secrets. */}}
{{- define "penstock.serving" -}}
- apiGroups: [penstock.dev]
  resources: [inferencepools]
  verbs: [get, list, watch]
- apiGroups: [penstock.dev]
  resources: [inferencepools/status]
  verbs: [get, patch, update]
# For owner references under the admission plugin OwnerReferencesPermissionEnforcement.
- apiGroups: [penstock.dev]
  resources: [inferencepools/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get, list, watch]
# A pool's children. Permission to create Deployments allows running code: protect this ServiceAccount.
- apiGroups: [apps]
  resources: [deployments, controllerrevisions]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
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

{{/* Peers that may connect to the pods of pools: this operator by its namespace and labels, and the peers in the values. */}}
{{- define "penstock.poolPeers" -}}
{{- $namespace := dict "matchLabels" (dict "kubernetes.io/metadata.name" .Release.Namespace) -}}
{{- $operator := dict "matchLabels" (include "penstock.selector" . | fromYaml) -}}
{{- $self := dict "namespaceSelector" $namespace "podSelector" $operator -}}
{{- dict "clusterPort" (prepend .Values.poolNetworkPolicy.scrapers $self) "clientPort" .Values.poolNetworkPolicy.clients | toJson -}}
{{- end -}}
