{{- /* Configuration files. Values are JSON's, which TOML has too: Helm's own writer turns numbers into floats. */ -}}
{{- define "dyad.toml" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end -}}

{{- /* Keys for security: a server's certificate and keys, and what it shows to others. (list $ "searcher") */ -}}
{{- define "dyad.securityKeys" -}}
{{- $root := first . -}}
{{- $s := $root.Values.security -}}
{{- $keys := dict -}}
{{- if $s.insecure }}{{- $_ := set $keys "insecure" true }}{{- end -}}
{{- if $s.tlsSecret -}}
{{- $_ := set $keys "tls-cert" "/run/dyad/tls/tls.crt" -}}
{{- $_ := set $keys "tls-key" "/run/dyad/tls/tls.key" -}}
{{- if has (last .) (list "searcher" "indexer") }}{{- $_ := set $keys "ca" "/run/dyad/tls/ca.crt" }}{{- end -}}
{{- end -}}
{{- if $s.keysSecret }}{{- $_ := set $keys "keys" "/run/dyad/keys/keys.json" }}{{- end -}}
{{- $secrets := include "dyad.secretsOf" . | fromJson -}}
{{- if hasKey $secrets "client-key" }}{{- $_ := set $keys "api-key-file" "/run/dyad/client-key/api-key" }}{{- end -}}
{{- /* The encoder service takes a key of role admin too. */ -}}
{{- if and (hasKey $secrets "admin-key") (eq (last .) "searcher") -}}
{{- $_ := set $keys "api-key-file" "/run/dyad/admin-key/api-key" -}}
{{- end -}}
{{- if and $s.adminKeySecret (eq (last .) "indexer") -}}
{{- $_ := set $keys "searcher-api-key-file" "/run/dyad/admin-key/api-key" -}}
{{- end -}}
{{- toJson $keys -}}
{{- end -}}

{{- /* A Service's names in the cluster: without keys a server answers HTTP by these and by addresses alone. */ -}}
{{- define "dyad.hostNames" -}}
{{- $root := first . -}}
{{- $name := printf "%s-%s" (include "dyad.fullname" $root) (last .) -}}
{{- $inNamespace := printf "%s.%s" $name $root.Release.Namespace -}}
{{- list $name $inNamespace (print $inNamespace ".svc") (print $inNamespace ".svc.cluster.local") | toJson -}}
{{- end -}}

{{- /* The files of security as options of a job's command. */ -}}
{{- define "dyad.clientOptions" -}}
{{- if .Values.security.tlsSecret }}
- --ca=/run/dyad/tls/ca.crt
{{- end }}
{{- if .Values.security.clientKeySecret }}
- --api-key-file=/run/dyad/client-key/api-key
{{- end }}
{{- end -}}

{{- /* encoder.toml */ -}}
{{- define "dyad.encoderConfiguration" -}}
{{- $e := .Values.encoder -}}
{{- $keys := dict "model" "/opt/dyad/model" "device" $e.device "dtype" $e.dtype -}}
{{- $_ := set $keys "listen" "0.0.0.0:7701" -}}
{{- $_ := set $keys "http" "0.0.0.0:7711" -}}
{{- $_ := set $keys "http-host" (include "dyad.hostNames" (list . "encoder") | fromJsonArray) -}}
{{- $_ := set $keys "lame-duck-s" $e.lameDuckS -}}
{{- $_ := set $keys "drain-s" $e.drainS -}}
{{- include "dyad.toml" (merge $keys (include "dyad.securityKeys" (list . "encoder") | fromJson) $e.config) -}}
{{- end -}}

{{- /* searcher.toml */ -}}
{{- define "dyad.searcherConfiguration" -}}
{{- $s := .Values.searcher -}}
{{- $keys := dict "listen" "0.0.0.0:7700" "http" "0.0.0.0:7780" -}}
{{- $_ := set $keys "http-host" (include "dyad.hostNames" (list . "searcher") | fromJsonArray) -}}
{{- if eq .Values.index.source "volume" -}}
{{- $_ := set $keys "index" (list (printf "%s=/var/lib/dyad/index" .Values.index.name)) -}}
{{- $_ := set $keys "watch" $s.watchS -}}
{{- if .Values.indexer.enabled }}{{- $_ := set $keys "admin-listen" "0.0.0.0:7790" }}{{- end -}}
{{- else -}}
{{- $_ := set $keys "index" (list (printf "%s=%s" .Values.index.name .Values.store.url)) -}}
{{- $_ := set $keys "cache" "/var/cache/dyad" -}}
{{- $_ := set $keys "cache-bytes" (include "dyad.cacheBytes" $s.cache.size) -}}
{{- $_ := set $keys "watch" (max 30 (int $s.watchS)) -}}
{{- end -}}
{{- if .Values.leaf.enabled -}}
{{- $_ := set $keys "leaves" (list (printf "%s://%s-leaf:7703" (include "dyad.scheme" .) (include "dyad.fullname" .))) -}}
{{- $_ := set $keys "replicas" (int .Values.leaf.holders) -}}
{{- end -}}
{{- $_ := set $keys "question-tower" (list (default "none" (include "dyad.encoderUrl" .))) -}}
{{- /* The encoder, the index in a store, or leaves that hold it, may come later. */ -}}
{{- $_ := set $keys "wait-s" (div (int $s.startupS) 2) -}}
{{- $_ := set $keys "lame-duck-s" $s.lameDuckS -}}
{{- $_ := set $keys "drain-s" $s.drainS -}}
{{- include "dyad.toml" (merge $keys (include "dyad.securityKeys" (list . "searcher") | fromJson) $s.config) -}}
{{- end -}}

{{- /* Nine tenths of a cache's volume, which also has folders and what a fetch has not finished: "20Gi". */ -}}
{{- define "dyad.cacheBytes" -}}
{{- $size := . -}}
{{- $mib := dict "Mi" 1 "Gi" 1024 "Ti" 1048576 -}}
{{- $unit := regexFind "[A-Z]i$" $size -}}
{{- printf "%dMiB" (div (mul (trimSuffix $unit $size | int64) (get $mib $unit) 9) 10) -}}
{{- end -}}

{{- /* Options of `dyad-searcher leaf`, which reads no file: --KEY=VALUE, in the order of their names. */ -}}
{{- define "dyad.leafOptions" -}}
{{- $l := .Values.leaf -}}
{{- $keys := dict "listen" "0.0.0.0:7703" "http" "0.0.0.0:7783" -}}
{{- $_ := set $keys "http-host" (include "dyad.hostNames" (list . "leaf") | fromJsonArray) -}}
{{- $_ := set $keys "index" (printf "%s=%s" .Values.index.name .Values.store.url) -}}
{{- $_ := set $keys "cache" "/var/cache/dyad" -}}
{{- $_ := set $keys "cache-bytes" (include "dyad.cacheBytes" $l.cache.size) -}}
{{- $_ := set $keys "names" (printf "%s-leaf-{0..%d}" (include "dyad.fullname" .) (sub (int $l.count) 1)) -}}
{{- if $l.alsoCount -}}
{{- $_ := set $keys "also-names" (printf "%s-leaf-{0..%d}" (include "dyad.fullname" .) (sub (int $l.alsoCount) 1)) -}}
{{- end -}}
{{- $_ := set $keys "replicas" (int $l.holders) -}}
{{- $_ := set $keys "watch" (int $l.watchS) -}}
{{- /* The index in a store may come later. */ -}}
{{- $_ := set $keys "wait-s" (div (int $l.startupS) 2) -}}
{{- $_ := set $keys "lame-duck-s" (int $l.lameDuckS) -}}
{{- $_ := set $keys "drain-s" (int $l.drainS) -}}
{{- range $key, $value := merge $keys (include "dyad.securityKeys" (list . "leaf") | fromJson) $l.config -}}
{{- range $one := ternary $value (list $value) (kindIs "slice" $value) }}
{{- if kindIs "bool" $one }}
{{- if $one }}
- --{{ $key }}
{{- end }}
{{- else }}
- {{ printf "--%s=%s" $key (trimAll "\"" (toJson $one)) | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* indexer.toml */ -}}
{{- define "dyad.indexerConfiguration" -}}
{{- $i := .Values.indexer -}}
{{- $name := include "dyad.fullname" . -}}
{{- $keys := dict "listen" "0.0.0.0:7702" "http" "0.0.0.0:7712" -}}
{{- $_ := set $keys "index" (printf "%s=/var/lib/dyad/index" .Values.index.name) -}}
{{- $_ := set $keys "http-host" (include "dyad.hostNames" (list . "indexer") | fromJsonArray) -}}
{{- with include "dyad.encoderUrl" . }}{{- $_ := set $keys "encoder" . }}{{- end -}}
{{- $searchers := list -}}
{{- range $number := until (int .Values.searcher.replicas) -}}
{{- $host := printf "%s-searcher-%d.%s-searcher-pods.%s.svc" $name $number $name $.Release.Namespace -}}
{{- $searchers = append $searchers (printf "%s://%s:7790" (include "dyad.scheme" $) $host) -}}
{{- end -}}
{{- $_ := set $keys "searcher" $searchers -}}
{{- $_ := set $keys "lame-duck-s" $i.lameDuckS -}}
{{- $_ := set $keys "drain-s" $i.drainS -}}
{{- include "dyad.toml" (merge $keys (include "dyad.securityKeys" (list . "indexer") | fromJson) $i.config) -}}
{{- end -}}
