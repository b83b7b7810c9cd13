package config

import "regexp"

// words maps Go names to the options of the file.
var optionByGoName = map[string]string{
	"TimeoutAnswer": "timeout_answer", "ClientTime": "client_time", "QuietTime": "quiet_time", "BodyTime": "body_time", "MaxRun": "max_run",
	"MaxBody": "max_body", "Limit.Body": "max_body", "MaxAnswer": "max_answer", "KeySource.MinLength": "min_key", "KeySource.Header": "key_header", "OnDoubt": "on_doubt",
	"After5xx": "after_5xx", "KeySource.Form": "form_key", "KeySource.Field": "key_field", "InProgress": "in_progress", "Outcome": "outcome", "Done": "done",
	"Missing": "missing", "MissingRefuse": "refuse", "MissingPass": "pass", "Lease": "lease", "Retention": "retention", "Wait": "in_progress", "Duplicate": "on_duplicate",
	"Reexecute": "reexecute", "Refuse": "refuse", "TrustedProxies": "trusted_proxies", "Methods": "match", "Tenant": "tenant", "Operation": "operation", "Fields": "fields",
	"Params": "params", "Key": "key", "AnyPayload": "any_payload", "Contract": "contract", "After5xxKeep": "keep", "Answer.Keep": "keep", "KeepNever": "never", "KeepAlways": "always", "KeepCookies": "keep_cookies", "NotRun": "not_run", "Fingerprint": "fingerprint", "FingerprintJSON": "json", "FingerprintBytes": "bytes", "Rate": "rate", "Limits": "limits", "Live": "live", "PerSecond": "new_per_s",
	"Burst": "burst", "Bytes": "bytes", "Upgrades": "upgrades", "After5xxRelease": "release", "After5xxAuto": "auto", "Off": "off", "MaxAge": "max_age", "Bodies": "bodies", "Conns": "connections", "Life": "life",
	"Health": "health", "Outstanding": "outstanding", "Rate.PerSecond": "per_s", "Age": "max_age", "TrustedHeaders": "header:NAME",
	"Addresses": "addresses", "UserHeader": "user", "RolesHeader": "groups", "Roles": "roles", "TrustedProxy": "trusted_proxy",
}

var (
	// goName matches a Go name, with the struct that has it in front. Text that is quoted, or that
	// has a hyphen or a slash, is the user's.
	goName   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[\w/-]*[/-]\w*|\b(?:([A-Z][A-Za-z]+)\.)?([A-Z][A-Za-z0-9]+)\b`)
	ofModule = regexp.MustCompile(`\b(?:admin|gateway|httpidem|retrysafe|httpsig|configuration|policy|options|token): `)
)

// translateNames replaces the Go names of a message with the names of the file.
func translateNames(text string) string {
	text = ofModule.ReplaceAllString(text, "")
	return goName.ReplaceAllStringFunc(text, func(name string) string {
		m := goName.FindStringSubmatch(name)
		for _, known := range []string{m[1] + "." + m[2], m[2]} {
			if word := optionByGoName[known]; word != "" {
				return word
			}
		}
		return name
	})
}
