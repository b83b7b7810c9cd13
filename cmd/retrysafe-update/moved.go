package main

const module = "github.com/retrysafe/retrysafe/"

// folders are where packages of v0.1.0 are now, with the packages below them.
var folders = map[string]string{
	"browser":     "httpidem/browser",
	"callback":    "httpidem/callback",
	"fingerprint": "httpidem/fingerprint",
	"httpsig":     "httpidem/httpsig",
	"memstore":    "stores/memstore",
	"nearstore":   "stores/nearstore",
	"redisstore":  "stores/redisstore",
	"sealstore":   "stores/sealstore",
	"shardstore":  "stores/shardstore",
	"sqlstore":    "stores/sqlstore",
	"storeapi":    "stores/storeapi",
	"storetest":   "stores/storetest",
	"token":       "httpidem/token",
}

// movedStructs are the structs whose fields are grouped now: by the name of the struct, and by the
// name of the field.
var movedStructs = map[string]map[string]fieldPlace{
	module + "httpidem.Options": {
		"KeyHeader": {"KeySource", "KeySource", "Header"},
		"KeyField":  {"KeySource", "KeySource", "Field"},
		"FormKey":   {"KeySource", "KeySource", "Form"},
		"MinKey":    {"KeySource", "KeySource", "MinLength"},
		"Tokens":    {"KeySource", "KeySource", "Tokens"},

		"Methods":     {"Request", "RequestOptions", "Methods"},
		"Operation":   {"Request", "RequestOptions", "Operation"},
		"Fingerprint": {"Request", "RequestOptions", "Fingerprint"},
		"Rule":        {"Request", "RequestOptions", "Rule"},
		"Fields":      {"Request", "RequestOptions", "Fields"},
		"AnyPayload":  {"Request", "RequestOptions", "AnyPayload"},
		"Missing":     {"Request", "RequestOptions", "Missing"},

		"After5xx":    {"Answer", "AnswerOptions", "After5xx"},
		"NotRun":      {"Answer", "AnswerOptions", "NotRun"},
		"Outcome":     {"Answer", "AnswerOptions", "Outcome"},
		"Classify":    {"Answer", "AnswerOptions", "Classify"},
		"KeepAnswer":  {"Answer", "AnswerOptions", "Keep"},
		"KeepCookies": {"Answer", "AnswerOptions", "KeepCookies"},
		"Succeed":     {"Answer", "AnswerOptions", "Succeed"},
		"InProgress":  {"Answer", "AnswerOptions", "InProgress"},

		"Account":     {"Limit", "LimitOptions", "Account"},
		"MaxBody":     {"Limit", "LimitOptions", "Body"},
		"BodyTime":    {"Limit", "LimitOptions", "BodyTime"},
		"Bodies":      {"Limit", "LimitOptions", "Bodies"},
		"Age":         {"Limit", "LimitOptions", "Age"},
		"Rate":        {"Limit", "LimitOptions", "Rate"},
		"RateMethods": {"Limit", "LimitOptions", "RateMethods"},
		"RateName":    {"Limit", "LimitOptions", "RateName"},
		"RateBy":      {"Limit", "LimitOptions", "RateBy"},
	},
}

// fieldPlace is where a field is now: in a group of the struct, which is a struct of the same
// package.
type fieldPlace struct{ group, groupType, field string }
