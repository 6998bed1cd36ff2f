{{- /* Values that contradict each other end the rendering; values.schema.json has what is wrong in one alone. */ -}}
{{- define "dyad.checks" -}}
{{- $v := .Values -}}
{{- $s := $v.security -}}
{{- if and (not $s.insecure) (not (and $s.tlsSecret $s.keysSecret)) -}}
{{- fail "security: expected `tlsSecret` and `keysSecret`, which servers that other pods reach need, got not both. Name two secrets, or set security.insecure" -}}
{{- end -}}
{{- if and $s.keysSecret (include "dyad.encoderUrl" .) (not $s.clientKeySecret) -}}
{{- fail "security.clientKeySecret: expected a secret with `api-key`, since the encoder service wants keys (security.keysSecret), got none" -}}
{{- end -}}
{{- if and $v.encoder.enabled $v.encoderUrl -}}
{{- fail (printf "encoderUrl: expected none with encoder.enabled, got `%s`. Set encoder.enabled=false" $v.encoderUrl) -}}
{{- end -}}
{{- if eq $v.index.source "store" -}}
{{- if not $v.store.url -}}
{{- fail "store.url: expected the index's place, since index.source is `store`, got none" -}}
{{- end -}}
{{- $jobs := dict "jobs.build.enabled" $v.jobs.build.enabled "jobs.push.enabled" $v.jobs.push.enabled -}}
{{- range $name, $enabled := set $jobs "indexer.enabled" $v.indexer.enabled -}}
{{- if $enabled -}}
{{- fail (printf "%s: expected an index on a volume, got index.source `store`. Build indexes of a store by `bulk`, or by a release with a volume that pushes" $name) -}}
{{- end -}}
{{- end -}}
{{- else if $v.searcher.autoscaling.enabled -}}
{{- fail "searcher.autoscaling.enabled: expected index.source `store`, got `volume`, whose searchers are on one node" -}}
{{- end -}}
{{- if $v.leaf.enabled -}}
{{- if ne $v.index.source "store" -}}
{{- fail (printf "leaf.enabled: expected index.source `store`, from which each leaf fetches its shards, got `%s`. Set index.source=store and store.url, or leaf.enabled=false" $v.index.source) -}}
{{- end -}}
{{- if gt (int $v.leaf.holders) (int $v.leaf.count) -}}
{{- fail (printf "leaf.holders: expected at most leaf.count, which is %d, since different leaves hold a shard, got %d. Lower it, or raise leaf.count" (int $v.leaf.count) (int $v.leaf.holders)) -}}
{{- end -}}
{{- if and $s.keysSecret (not $s.adminKeySecret) -}}
{{- fail "security.adminKeySecret: expected a secret with `api-key`, by which searchers ask leaves (leaf.enabled), since leaves want keys of role admin (security.keysSecret), got none" -}}
{{- end -}}
{{- end -}}
{{- if and $v.indexer.enabled $s.keysSecret (not $s.adminKeySecret) -}}
{{- fail "security.adminKeySecret: expected a secret with `api-key`, by which the indexer has searchers reload, got none" -}}
{{- end -}}
{{- if and $v.jobs.build.enabled (not (and $v.jobs.build.corpusClaim (include "dyad.encoderUrl" .))) -}}
{{- fail "jobs.build: expected `corpusClaim`, and an encoder service (encoder.enabled or encoderUrl), got not both" -}}
{{- end -}}
{{- if and $v.jobs.push.enabled (not $v.jobs.push.url) -}}
{{- fail "jobs.push.url: expected where the index is pushed to, got none" -}}
{{- end -}}
{{- if $v.bulk.step -}}
{{- if not (and $v.bulk.input $v.bulk.job $v.store.url (include "dyad.encoderUrl" .)) -}}
{{- fail "bulk.step: expected `bulk.input`, `bulk.job`, `store.url` and an encoder service (encoder.enabled or encoderUrl), got not all" -}}
{{- end -}}
{{- if eq $v.bulk.job $v.store.url -}}
{{- fail (printf "bulk.job: expected another place than that of the index, got `%s`" $v.bulk.job) -}}
{{- end -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled $s.keysSecret (not $v.serviceMonitor.keySecret) -}}
{{- fail "serviceMonitor.keySecret: expected a secret with `api-key`, since servers want keys (security.keysSecret), got none" -}}
{{- end -}}
{{- end -}}
