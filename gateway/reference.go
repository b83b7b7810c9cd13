package gateway

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference is the table of all options of the configuration file, in Markdown. It is made from the code, so that it leaves none out.
func Reference() string {
	var b strings.Builder
	table(&b, "The file", reflect.TypeFor[Config]())
	table(&b, "`tls`", reflect.TypeFor[TLSConfig]())
	table(&b, "`health`", reflect.TypeFor[HealthConfig]())
	table(&b, "`limits` of the server", reflect.TypeFor[LimitsConfig]())
	table(&b, "`tokens`", reflect.TypeFor[TokensConfig]())
	table(&b, "An entry of `routes`, besides the settings below", reflect.TypeFor[RouteConfig]())
	table(&b, "Settings, in `defaults` and in each route", reflect.TypeFor[Settings]())
	table(&b, "`key` made of the request: in `params`, or beside `fields`", reflect.TypeFor[KeyRuleConfig]())
	table(&b, "`tenant` by what requests carry: {cookie: …, …}", reflect.TypeFor[CredentialConfig]())
	table(&b, "`tenant: {jwt: …}`", reflect.TypeFor[JWTConfig]())
	table(&b, "`cors`", reflect.TypeFor[CORSConfig]())
	table(&b, "`rate`", reflect.TypeFor[RateConfig]())
	table(&b, "`signature`", reflect.TypeFor[SignatureConfig]())
	table(&b, "`max_age`", reflect.TypeFor[AgeConfig]())
	table(&b, "`limits` of a tenant, in `defaults` and in each route", reflect.TypeFor[TenantLimitsConfig]())
	b.WriteString("\nAbove the file stand, where they are set: ")
	for i, v := range environment {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("`" + v.name + "`")
	}
	b.WriteString(".\n")
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
