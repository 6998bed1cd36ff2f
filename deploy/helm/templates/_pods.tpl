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
{{- if and $s.keysSecret (has $component (list "encoder" "searcher" "indexer" "leaf")) -}}
{{- $_ := set $secrets "keys" $s.keysSecret -}}
{{- end -}}
{{- /* A searcher has one key for all that it asks: with leaves the one that they want. */ -}}
{{- $asksLeaves := and (eq $component "searcher") (first .).Values.leaf.enabled -}}
{{- $showsAdminKey := and $s.adminKeySecret (or $asksLeaves (eq $component "indexer")) -}}
{{- if and $s.clientKeySecret (not (has $component (list "encoder" "leaf"))) (not (and $asksLeaves $showsAdminKey)) -}}
{{- $_ := set $secrets "client-key" $s.clientKeySecret -}}
{{- end -}}
{{- if $showsAdminKey -}}
{{- $_ := set $secrets "admin-key" $s.adminKeySecret -}}
{{- end -}}
{{- toJson $secrets -}}
{{- end -}}

{{- /* What a store is reached by. */ -}}
{{- define "dyad.storeEnvironment" -}}
{{- include "dyad.storeSecret" . }}
{{- with include "dyad.storeVariables" . | trim }}
env: {{- nindent 2 . }}
{{- end }}
{{- end -}}

{{- define "dyad.storeSecret" -}}
{{- with .Values.store.credentialsSecret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
{{- end -}}

{{- define "dyad.storeVariables" -}}
{{- range $name, $value := .Values.store.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- /* Pods of a component on as many nodes as there are: (list $ "searcher"). */ -}}
{{- define "dyad.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "dyad.selector" . | nindent 8 }}
{{- end -}}

{{- /* A claim `cache` for each pod of a StatefulSet: (list $ "searcher" CACHE). */ -}}
{{- define "dyad.cacheClaim" -}}
{{- $cache := last . -}}
volumeClaimTemplates:
  - metadata:
      name: cache
      labels: {{- include "dyad.selector" (list (first .) (index . 1)) | nindent 8 }}
    spec:
      accessModes: [ReadWriteOnce]
      {{- with $cache.storageClass }}
      storageClassName: {{ . }}
      {{- end }}
      resources:
        requests: {storage: {{ $cache.size }}}
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
