{{/* Permissions in served namespaces: watch pools and manage their children. No nodes, no Secrets; nodes.yaml is opt-in. */}}
{{- define "penstock.serving" -}}
- apiGroups: [penstock.dev]
  resources: [inferencepools]
  verbs: [get, list, watch, create, patch, delete] # the pools of variants (spec.variants), which a pool owns
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
{{- if .Values.leaderWorkerSets.enabled }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get, list, watch, create, patch, update, delete]
# Those that the controller of LeaderWorkerSets creates, between them and their pods.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.gateway.image.repository }}
# The gateway of a namespace watches Services and pods there: the operator binds this one ClusterRole, whose rules it has.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, watch, create, patch, update, delete]
{{- end }}
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
