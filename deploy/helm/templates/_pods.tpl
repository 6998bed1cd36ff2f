{{- /* What pods and containers have in common. */ -}}

{{- define "dyad.podSettings" -}}
serviceAccountName: {{ include "dyad.fullname" . }}
automountServiceAccountToken: false
# Variables that Kubernetes makes of Services, such as DYAD_SEARCHER_PORT, look like options of the programs.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  # Of a large volume, only its root is looked at.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "dyad.containerSettings" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- /* By HTTP: kubelet's probes over gRPC know no TLS. (list $ seconds of the start) */ -}}
{{- define "dyad.probes" -}}
{{- $scheme := include "dyad.scheme" (first .) | upper -}}
startupProbe:
  httpGet: {path: /livez, port: http, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ div (add (int (last .)) 4) 5 }}
livenessProbe:
  httpGet: {path: /livez, port: http, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{- /* The secrets that a component reads, as volumes: (list $ "searcher"). */ -}}
{{- define "dyad.secretVolumes" -}}
{{- $secrets := include "dyad.secretsOf" . | fromJson -}}
{{- range $volume, $secret := $secrets }}
- name: {{ $volume }}
  secret: {secretName: {{ $secret }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- define "dyad.secretMounts" -}}
{{- $secrets := include "dyad.secretsOf" . | fromJson -}}
{{- range $volume, $secret := $secrets }}
- {name: {{ $volume }}, mountPath: /run/dyad/{{ $volume }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "dyad.secretsOf" -}}
{{- $s := (first .).Values.security -}}
{{- $component := last . -}}
{{- $secrets := dict -}}
{{- if $s.tlsSecret }}{{- $_ := set $secrets "tls" $s.tlsSecret }}{{- end -}}
{{- if and $s.keysSecret (has $component (list "encoder" "searcher" "indexer")) -}}
{{- $_ := set $secrets "keys" $s.keysSecret -}}
{{- end -}}
{{- if and $s.clientKeySecret (ne $component "encoder") -}}
{{- $_ := set $secrets "client-key" $s.clientKeySecret -}}
{{- end -}}
{{- if and $s.adminKeySecret (eq $component "indexer") -}}
{{- $_ := set $secrets "admin-key" $s.adminKeySecret -}}
{{- end -}}
{{- toJson $secrets -}}
{{- end -}}

{{- /* What a store is reached by. */ -}}
{{- define "dyad.storeEnvironment" -}}
{{- with .Values.store.credentialsSecret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
{{- with .Values.store.env }}
env:
{{- range $name, $value := . }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Pods that mount the index's volume are on one node: its disk is there, and locks of files tell who reads. */ -}}
{{- define "dyad.nextToTheIndex" -}}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector:
          matchLabels:
            dyad/index-volume: {{ include "dyad.indexClaim" . }}
        topologyKey: kubernetes.io/hostname
{{- end -}}

{{- define "dyad.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "dyad.replicas" -}}
{{- if not .autoscaling.enabled }}
replicas: {{ .replicas }}
{{- end }}
{{- end -}}

{{- /* Longer than a server takes to end. */ -}}
{{- define "dyad.graceS" -}}
{{- add (int .lameDuckS) (int .drainS) 10 -}}
{{- end -}}
