{{/* Non-empty where the platform assigns the IDs of pods. */}}
{{- define "penstock.platformIds" -}}
{{- $served := .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- if or (eq .Values.platform "OpenShift") (and $served (eq .Values.platform "Auto")) -}}
true
{{- end -}}
{{- end -}}

{{/* Security context of the pods: OpenShift assigns UID, GID and fsGroup from the namespace's range. */}}
{{- define "penstock.podSecurityContext" -}}
{{- $context := deepCopy (.Values.podSecurityContext | default dict) -}}
{{- if and .Values.tls.secretName (not (hasKey $context "fsGroup")) -}}
{{- $_ := set $context "fsGroup" 65532 -}}
{{- end -}}
{{- if include "penstock.platformIds" . -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* Security context of the batch service's pods, which write to a volume. */}}
{{- define "penstock.batchesSecurityContext" -}}
{{- $context := deepCopy (.Values.podSecurityContext | default dict) -}}
{{- if not (hasKey $context "fsGroup") -}}
{{- $_ := set $context "fsGroup" 65532 -}}
{{- end -}}
{{- if include "penstock.platformIds" . -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* Scheduling of all pods of the chart. */}}
{{- define "penstock.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Fields of the spec of gateways' pods, in JSON; empty without any. */}}
{{- define "penstock.gatewayPod" -}}
{{- $fields := dict -}}
{{- range $name := list "imagePullSecrets" "nodeSelector" "tolerations" "priorityClassName" -}}
{{- with index $.Values.gateway $name -}}
{{- $_ := set $fields $name . -}}
{{- end -}}
{{- end -}}
{{- if $fields }}{{ toJson $fields }}{{ end -}}
{{- end -}}

{{/* Pod that checks the installation, from (list . ACCOUNT CHECK ...). */}}
{{- define "penstock.checkPod" -}}
{{- $root := first . -}}
restartPolicy: Never
serviceAccountName: {{ index . 1 | quote }}
enableServiceLinks: false
securityContext: {{- include "penstock.podSecurityContext" $root | nindent 2 }}
containers:
  - name: check
    image: {{ include "penstock.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [python3, -m, penstock_operator.installation_check]
    args:
      - --namespace={{ include "penstock.namespace" $root }}
      - --deployment={{ include "penstock.operator" $root }}
      {{- range slice . 2 }}
      - {{ . }}
      {{- end }}
    securityContext: {{- toYaml $root.Values.securityContext | nindent 6 }}
    resources: {{- toYaml $root.Values.resources | nindent 6 }}
{{- include "penstock.scheduling" $root }}
{{- end -}}

{{/* Environment of the operator. All settings are variables, so any change triggers a rollout. */}}
{{- define "penstock.environment" -}}
- name: PENSTOCK_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: PENSTOCK_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: PENSTOCK_DEFAULT_RUNTIME_IMAGE
  value: {{ include "penstock.runtimeImage" . | quote }}
{{- if include "penstock.platformIds" . }}
- name: PENSTOCK_POOL_IDS
  value: Platform
{{- end }}
{{- with .Values.runtimeImage.pullPolicy | default .Values.defaultRuntimeImagePullPolicy }}
- name: PENSTOCK_IMAGE_PULL_POLICY
  value: {{ . }}
{{- end }}
{{- if eq .Values.scope "Namespaces" }}
- name: PENSTOCK_SCOPE
  value: Namespaces
- name: PENSTOCK_NAMESPACES
  value: {{ join "," .Values.namespaces | quote }}
{{- end }}
{{- $prometheus := .Values.prometheus }}
{{- if and (not $prometheus.url) (or $prometheus.credentialsSecret $prometheus.caConfigMap.name $prometheus.headers) }}
{{- fail "prometheus.credentialsSecret, prometheus.caConfigMap and prometheus.headers need prometheus.url: set it, or remove them" }}
{{- end }}
{{- if and $prometheus.credentialsSecret (not (hasPrefix "https://" $prometheus.url)) }}
{{- fail (printf "prometheus.credentialsSecret needs an https prometheus.url, got %s: credentials are not sent in the clear" $prometheus.url) }}
{{- end }}
{{- with .Values.prometheus.url }}
- name: PENSTOCK_PROMETHEUS_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.prometheus.caConfigMap.name }}
- name: PENSTOCK_PROMETHEUS_CA_CONFIG_MAP
  value: {{ printf "%s/%s" . $.Values.prometheus.caConfigMap.key | quote }}
{{- end }}
{{- with .Values.prometheus.credentialsSecret }}
- name: PENSTOCK_PROMETHEUS_CREDENTIALS_SECRET
  value: {{ . | quote }}
{{- end }}
{{- with .Values.prometheus.headers }}
- name: PENSTOCK_PROMETHEUS_HEADERS
  value: {{ toJson . | quote }}
{{- end }}
{{- if .Values.poolNetworkPolicy.enabled }}
- name: PENSTOCK_POOL_NETWORK_POLICY
  value: {{ include "penstock.poolPeers" . | quote }}
{{- end }}
{{- if .Values.gateway.image.repository }}
- name: PENSTOCK_GATEWAY_IMAGE
  value: {{ include "penstock.reference" (list .Values.gateway.image .Chart.AppVersion) | quote }}
- name: PENSTOCK_GATEWAY_ENVOY_IMAGE
  value: {{ include "penstock.reference" (list .Values.gateway.envoyImage "latest") | quote }}
- name: PENSTOCK_GATEWAY_CLUSTER_ROLE
  value: {{ include "penstock.clusterName" . }}-gateway
- name: PENSTOCK_GATEWAY_REPLICAS
  value: {{ .Values.gateway.replicas | quote }}
{{- with include "penstock.gatewayPod" . }}
- name: PENSTOCK_GATEWAY_POD
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- if .Values.leaderWorkerSets.enabled }}
- name: PENSTOCK_LEADER_WORKER_SETS
  value: Enabled
{{- end }}
{{- if .Values.tls.secretName }}
- name: PENSTOCK_TLS_FOLDER
  value: /etc/penstock-tls
{{- end }}
{{- if .Values.poolAuthorities.configMapName }}
- name: PENSTOCK_POD_CA_FILE
  value: /etc/penstock-authorities/{{ .Values.poolAuthorities.key }}
{{- end }}
- name: PENSTOCK_LOG_FORMAT
  value: {{ .Values.logs.format }}
- name: PENSTOCK_LOG_LEVEL
  value: {{ .Values.logs.level }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
