{{/*
The start of every name. It is the release's name as it stands, so that a
release named napwake has napwake-doorman-wake-key and one named team-a has
team-a-doorman-wake-key. The longest end that a template appends has 26
characters, and Kubernetes cuts no name itself.
*/}}
{{- define "napwake.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 36 | trimSuffix "-" -}}
{{- end -}}

{{/*
The start of names outside any namespace, where a release's name alone could
be anybody's.
*/}}
{{- define "napwake.clusterName" -}}
{{- $name := include "napwake.fullname" . -}}
{{- if contains "napwake" $name -}}{{ $name }}{{- else -}}{{ $name }}-napwake{{- end -}}
{{- end -}}

{{- define "napwake.operatorName" -}}{{ include "napwake.fullname" . }}-operator{{- end -}}
{{- define "napwake.doormanName" -}}{{ include "napwake.fullname" . }}-doorman{{- end -}}
{{- define "napwake.wakeKeyName" -}}{{ include "napwake.fullname" . }}-doorman-wake-key{{- end -}}
{{- define "napwake.wakeEverybodyName" -}}{{ include "napwake.fullname" . }}-wake-everybody{{- end -}}

{{/* Which pods are whose. Called with (dict "root" $ "part" "doorman"). */}}
{{- define "napwake.selector" -}}
app.kubernetes.io/name: napwake
app.kubernetes.io/instance: {{ .root.Release.Name }}
control-plane: {{ .part }}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "napwake.labels" -}}
app.kubernetes.io/name: napwake
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
Keeps service meshes' sidecars out: a connection that the doorman passes on is
the caller's own, and a sidecar beside a Job never lets it end.
*/}}
{{- define "napwake.noMeshLabels" -}}
sidecar.istio.io/inject: "false"
istio.io/dataplane-mode: none
{{- end -}}
{{- define "napwake.noMeshAnnotations" -}}
linkerd.io/inject: disabled
{{- end -}}

{{- define "napwake.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{/*
The restricted Pod Security level. The image's own user, 65532, is not root;
no number is set here, so that OpenShift can choose its own.
*/}}
{{- define "napwake.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- define "napwake.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Who the pod is: for the Lease, and for what its events say about their sender. */}}
{{- define "napwake.podEnv" -}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
{{- end -}}

{{- define "napwake.logArgs" -}}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
{{- end -}}

{{/* What the operator and the wake before an uninstall are told alike. */}}
{{- define "napwake.operatorArgs" -}}
- operator
- --doorman-service={{ if .Values.doorman.enabled }}{{ include "napwake.doormanName" . }}{{ end }}
- --default-wake={{ .Values.defaults.wake }}
- --default-idle-after={{ .Values.defaults.idleAfter }}
- --ports-per-workload={{ .Values.doorman.portsPerWorkload }}
- --ports-per-namespace={{ .Values.doorman.portsPerNamespace }}
- --endpoint-target-ref={{ .Values.doorman.endpointTargetRef }}
{{ include "napwake.logArgs" . }}
{{- end -}}

{{/*
Prefers nodes without a pod of the same part and the same rollout; on one node
all of them still start. Called with (dict "root" $ "part" "doorman").
*/}}
{{- define "napwake.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "napwake.selector" . | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end -}}
