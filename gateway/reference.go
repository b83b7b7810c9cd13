package gateway

import (
	"fmt"
	"reflect"
	"strings"
)

// sections are all tables of options.
var sections = []section{
	{"The file", reflect.TypeFor[Config]()},
	{"`tls`", reflect.TypeFor[TLSConfig]()},
	{"`health`", reflect.TypeFor[HealthConfig]()},
	{"`limits` of the server", reflect.TypeFor[LimitsConfig]()},
	{"`tokens`", reflect.TypeFor[TokensConfig]()},
	{"An entry of `routes`, besides the settings below", reflect.TypeFor[RouteConfig]()},
	{"Settings, in `defaults` and in each route", reflect.TypeFor[Settings]()},
	{"`key` made of the request: in `params`, or beside `fields`", reflect.TypeFor[KeyRuleConfig]()},
	{"`tenant` by what requests carry: {cookie: …, …}", reflect.TypeFor[CredentialConfig]()},
	{"`tenant: {jwt: …}`", reflect.TypeFor[JWTConfig]()},
	{"`cors`", reflect.TypeFor[CORSConfig]()},
	{"`rate`", reflect.TypeFor[RateConfig]()},
	{"`signature`", reflect.TypeFor[SignatureConfig]()},
	{"`max_age`", reflect.TypeFor[AgeConfig]()},
	{"`limits` of a tenant, in `defaults` and in each route", reflect.TypeFor[TenantLimitsConfig]()},
}

// Reference returns the table of all options of the configuration file, in Markdown. It is
// generated from the code, so that it is complete.
func Reference() string {
	var b strings.Builder
	for _, s := range sections {
		table(&b, s.title, s.of)
	}
	b.WriteString("\nThese variables of the environment override the file:\n\n")
	for _, v := range environment {
		b.WriteString("- `" + v.name + "`\n")
	}
	return b.String()
}

func table(b *strings.Builder, title string, of reflect.Type) {
	fmt.Fprintf(b, "\n### %s\n\n| option | default | meaning |\n|---|---|---|\n", title)
	for i := range of.NumField() {
		f := of.Field(i)
		if name := f.Tag.Get("yaml"); name != "" && !strings.HasPrefix(name, ",") {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, f.Tag.Get("default"), f.Tag.Get("doc"))
		}
	}
}
