{{- define "agent-jobs.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "agent-jobs.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ include "agent-jobs.tag" . }}{{ end }}
{{- end }}

{{- /* A version in an object's name. */ -}}
{{- define "agent-jobs.version" -}}
{{ (.Values.image.digest | trimPrefix "sha256:" | trunc 12) | default (include "agent-jobs.tag" .) | lower | replace "." "-" | replace "_" "-" | replace "+" "-" | trunc 30 | trimSuffix "-" }}
{{- end }}

{{- define "agent-jobs.labels" -}}
app.kubernetes.io/name: agent-jobs
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Of another name than the workers' pods: what selects those must not select these. */ -}}
{{- define "agent-jobs.httpLabels" -}}
app.kubernetes.io/name: agent-jobs-http
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The labels of a role's pods: the version is one of them where each version has Deployments of its own. */ -}}
{{- define "agent-jobs.selector" -}}
{{ include "agent-jobs.labels" .root }}
app.kubernetes.io/component: {{ .role }}
{{- if .root.Values.versioning.enabled }}
agent-jobs/version: {{ include "agent-jobs.version" .root | quote }}
{{- end }}
{{- end }}

{{- define "agent-jobs.workerName" -}}
{{ .root.Release.Name }}-{{ .role }}{{ if .root.Values.versioning.enabled }}-{{ include "agent-jobs.version" .root }}{{ end }}
{{- end }}

{{- /* The way to Temporal: of workers and of the set-up. */ -}}
{{- define "agent-jobs.temporalEnv" -}}
- { name: TEMPORAL_ADDRESS, value: {{ required "temporal.address is missing: host:port of Temporal" .Values.temporal.address | quote }} }
- { name: TEMPORAL_NAMESPACE, value: {{ .Values.temporal.namespace | quote }} }
{{- with .Values.temporal.proxy }}
- { name: TEMPORAL_PROXY, value: {{ . | quote }} }
{{- end }}
{{- with .Values.temporal.tls }}
{{- if .secret }}
- { name: TEMPORAL_TLS_CLIENT_CERT_PATH, value: /run/secrets/temporal-tls/tls.crt }
- { name: TEMPORAL_TLS_CLIENT_KEY_PATH, value: /run/secrets/temporal-tls/tls.key }
{{- if .serverAuthority }}
- { name: TEMPORAL_TLS_SERVER_CA_CERT_PATH, value: /run/secrets/temporal-tls/ca.crt }
{{- end }}
{{- end }}
{{- if .serverName }}
- { name: TEMPORAL_TLS_SERVER_NAME, value: {{ .serverName | quote }} }
{{- end }}
{{- end }}
{{- if .Values.temporal.apiKey.secret }}
- { name: TEMPORAL_API_KEY_FILE, value: {{ printf "/run/secrets/temporal-api-key/%s" .Values.temporal.apiKey.key | quote }} }
{{- end }}
{{- end }}

{{- /* Folders, not files (subPath): only a folder shows a Secret that was replaced. */ -}}
{{- define "agent-jobs.temporalMounts" -}}
- { name: tmp, mountPath: /tmp }
{{- if .Values.temporal.tls.secret }}
- { name: temporal-tls, mountPath: /run/secrets/temporal-tls, readOnly: true }
{{- end }}
{{- if .Values.temporal.apiKey.secret }}
- { name: temporal-api-key, mountPath: /run/secrets/temporal-api-key, readOnly: true }
{{- end }}
{{- end }}

{{- define "agent-jobs.temporalVolumes" -}}
- { name: tmp, emptyDir: { sizeLimit: 256Mi } }
{{- with .Values.temporal.tls.secret }}
- { name: temporal-tls, secret: { secretName: {{ . | quote }}, defaultMode: 288 } }
{{- end }}
{{- with .Values.temporal.apiKey.secret }}
- { name: temporal-api-key, secret: { secretName: {{ . | quote }}, defaultMode: 288 } }
{{- end }}
{{- end }}

{{- /* Absent after `helm upgrade --reuse-values` from a chart without these values. A key that is null is left out. */ -}}
{{- define "agent-jobs.podSecurity" -}}
{{- $today := dict "runAsNonRoot" true "runAsUser" 10001 "runAsGroup" 10001 "fsGroup" 10001 -}}
{{- $_ := set $today "fsGroupChangePolicy" "OnRootMismatch" -}}
{{- $_ := set $today "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- include "agent-jobs.withoutNull" (kindIs "map" .Values.podSecurityContext | ternary .Values.podSecurityContext $today) }}
{{- end }}

{{- define "agent-jobs.containerSecurity" -}}
{{- $today := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true -}}
{{- $_ := set $today "capabilities" (dict "drop" (list "ALL")) -}}
{{- include "agent-jobs.withoutNull" (kindIs "map" .Values.securityContext | ternary .Values.securityContext $today) }}
{{- end }}

{{- define "agent-jobs.withoutNull" -}}
{{- $kept := dict -}}
{{- range $key, $value := . }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $kept $key $value }}{{ end }}{{ end -}}
{{- toYaml $kept }}
{{- end }}

{{- /* The port of "host:port" or of an address with a scheme, a user or a path; without one that of the scheme. */ -}}
{{- define "agent-jobs.port" -}}
{{- $host := regexReplaceAll "^(?:[A-Za-z]+://)?(?:[^/?#]*@)?([^/?#]*).*$" .address "${1}" -}}
{{- $byScheme := hasPrefix "https:" (lower .address) | ternary "443" .default -}}
{{- regexFind ":[0-9]+$" $host | trimPrefix ":" | default $byScheme }}
{{- end }}

{{- /* As text: numbers of values and of templates differ in type, and would be listed twice. */ -}}
{{- define "agent-jobs.egressPorts" -}}
{{- $ports := list (include "agent-jobs.port" (dict "address" .Values.temporal.address "default" "7233")) -}}
{{- $web := list .Values.upstream.baseUrl .Values.temporal.proxy -}}
{{- range $name := list "HTTPS_PROXY" "HTTP_PROXY" "WEBHOOKS_PROXY" -}}
{{- $web = append $web (get $.Values.settings $name) -}}
{{- end -}}
{{- range compact $web -}}
{{- $ports = append $ports (include "agent-jobs.port" (dict "address" . "default" "80")) -}}
{{- end -}}
{{- range .Values.networkPolicy.egressPorts }}{{ $ports = append $ports (int . | toString) }}{{ end -}}
{{- $ports | uniq | join " " }}
{{- end }}

{{- define "agent-jobs.egress" -}}
- ports:
    - { protocol: UDP, port: 53 }
    - { protocol: TCP, port: 53 }
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        {{- with .Values.networkPolicy.egressExcept }}
        except:
          {{- toYaml . | nindent 10 }}
        {{- end }}
    - ipBlock: { cidr: '::/0' }
  ports:
    {{- range include "agent-jobs.egressPorts" . | splitList " " }}
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
{{- end }}

{{- /* Where pods go, and their annotations: what a part sets for itself (`own`) takes the place of the common value. */ -}}
{{- define "agent-jobs.placement" -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with hasKey $.own $name | ternary (get $.own $name) (get $.root.Values $name) }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "agent-jobs.podAnnotations" -}}
{{- with hasKey .own "podAnnotations" | ternary .own.podAnnotations .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Snapshots in a folder of the container itself would be lost with it, and can't be written there. */ -}}
{{- define "agent-jobs.snapshotsStay" -}}
{{- if hasPrefix "file:" (lower .Values.snapshots.url) }}
{{- $path := printf "%s/" (get (urlParse .Values.snapshots.url) "path" | clean | trimSuffix "/") -}}
{{- $folders := empty .Values.snapshots.claim | ternary list (list "/snapshots") -}}
{{- range .Values.extraVolumeMounts }}{{ if not .readOnly }}{{ $folders = append $folders .mountPath }}{{ end }}{{ end -}}
{{- $isMounted := false -}}
{{- range $folders }}{{ if hasPrefix (printf "%s/" (trimSuffix "/" .)) $path }}{{ $isMounted = true }}{{ end }}{{ end -}}
{{- if not $isMounted }}
{{- $remedy := "set snapshots.claim, which is mounted at /snapshots, or mount one there with extraVolumeMounts" -}}
{{- printf "snapshots.url %s is in no volume: %s" .Values.snapshots.url $remedy | fail }}
{{- end }}
{{- end }}
{{- end }}
