{{/* Groups of rules/penstock.yaml, with the changes in metrics.prometheusRule. */}}
{{- define "penstock.ruleGroups" -}}
{{- $settings := .Values.metrics.prometheusRule -}}
{{- $thresholds := .Files.Get "rules/thresholds.yaml" | fromYaml -}}
{{- $groups := list -}}
{{- range $group := (.Files.Get "rules/penstock.yaml" | fromYaml).groups -}}
  {{- $kept := list -}}
  {{- range $rule := $group.rules -}}
    {{- $own := get $settings.alerts ($rule.alert | default "") | default dict -}}
    {{- if $rule.alert -}}
      {{- $rule = include "penstock.alert" (list $rule $own $settings $thresholds (include "penstock.namespace" $)) | fromYaml -}}
    {{- end -}}
    {{- if dig "enabled" true $own -}}
      {{- $kept = append $kept $rule -}}
    {{- end -}}
  {{- end -}}
  {{- if $kept -}}
    {{- $groups = append $groups (dict "name" $group.name "rules" $kept) -}}
  {{- end -}}
{{- end -}}
{{- toYaml $groups -}}
{{- end -}}

{{/* One alert, from (list ALERT CHANGES SETTINGS THRESHOLDS NAMESPACE). An expression compares by `> THRESHOLD`.
     `0.9 / THRESHOLD` is the error budget of which 90 % of late requests are the threshold. */}}
{{- define "penstock.alert" -}}
{{- $alert := deepCopy (index . 0) -}}
{{- $own := index . 1 -}}
{{- $settings := index . 2 -}}
{{- $severity := dict "severity" ($own.severity | default $alert.labels.severity) -}}
{{- $labels := merge $severity ($own.labels | default dict) $settings.alertLabels -}}
{{- if eq $alert.alert "PenstockNoLeader" -}}
  {{- $leader := printf "penstock_operator_leader{namespace=%q}" (index . 4) -}}
  {{- $_ := set $alert "expr" ($alert.expr | replace "penstock_operator_leader" $leader) -}}
  {{- $labels = merge $labels (dict "namespace" (index . 4)) -}}
{{- end -}}
{{- $_ := set $alert "labels" $labels -}}
{{- $_ := set $alert "for" ($own.for | default (index $alert "for")) -}}
{{- with $settings.runbookBaseUrl -}}
  {{- $_ := set $alert.annotations "runbook_url" (printf "%s/%s" (trimSuffix "/" .) $alert.alert) -}}
{{- end -}}
{{- if hasKey $own "threshold" -}}
  {{- $default := get (index . 3) $alert.alert -}}
  {{- $pattern := printf "(> |0\\.9 / )%s([^0-9.]|$)" ($default | replace "." "\\.") -}}
  {{- $changed := printf "${1}%v${2}" $own.threshold -}}
  {{- $_ := set $alert "expr" (regexReplaceAll $pattern $alert.expr $changed) -}}
{{- end -}}
{{- toYaml $alert -}}
{{- end -}}
