package config

import (
	"fmt"
	"reflect"
	"strings"
)

// section is a table of options.
type section struct {
	title      string
	structType reflect.Type
}

// sections are all tables of options.
var sections = []section{
	{"The file", reflect.TypeFor[file]()},
	{"`tls`", reflect.TypeFor[tlsOptions]()},
	{"`operators`", reflect.TypeFor[operatorOptions]()},
	{"`trusted_proxy` of `operators`", reflect.TypeFor[trustedProxyOptions]()},
	{"`health`", reflect.TypeFor[healthOptions]()},
	{"`limits` of the server", reflect.TypeFor[serverLimits]()},
	{"`seal`", reflect.TypeFor[sealOptions]()},
	{"`tokens`", reflect.TypeFor[tokenOptions]()},
	{"An entry of `routes`, besides the settings below", reflect.TypeFor[routeOptions]()},
	{"Settings, in `defaults` and in each route", reflect.TypeFor[settings]()},
	{"`key` made of the request: in `params`, or beside `fields`", reflect.TypeFor[keyRule]()},
	{"`tenant` by what requests carry: {cookie: …, …}", reflect.TypeFor[credentialOptions]()},
	{"`tenant: {jwt: …}`", reflect.TypeFor[jwtOptions]()},
	{"`cors`", reflect.TypeFor[corsOptions]()},
	{"`rate`", reflect.TypeFor[rateOptions]()},
	{"`signature`", reflect.TypeFor[signatureOptions]()},
	{"`max_age`", reflect.TypeFor[maxAgeOptions]()},
	{"`outcome`", reflect.TypeFor[outcomeOptions]()},
	{"`limits` of a tenant, in `defaults` and in each route", reflect.TypeFor[tenantLimits]()},
}

// optionNames has all options of the file.
var optionNames = func() (names []string) {
	for _, s := range sections {
		for i := range s.structType.NumField() {
			if name := s.structType.Field(i).Tag.Get("yaml"); name != "" && !strings.HasPrefix(name, ",") {
				names = append(names, name)
			}
		}
	}
	return names
}()

// Reference returns the table of all options of the configuration file, in Markdown. It is
// generated from the code, so that it is complete.
func Reference() string {
	var b strings.Builder
	for _, s := range sections {
		writeTable(&b, s.title, s.structType)
	}
	b.WriteString("\nThese variables of the environment override the file:\n\n")
	for _, v := range environment {
		b.WriteString("- `" + v.name + "`\n")
	}
	return b.String()
}

func writeTable(b *strings.Builder, title string, of reflect.Type) {
	fmt.Fprintf(b, "\n### %s\n\n| option | default | meaning |\n|---|---|---|\n", title)
	for i := range of.NumField() {
		f := of.Field(i)
		if name := f.Tag.Get("yaml"); name != "" && !strings.HasPrefix(name, ",") {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, f.Tag.Get("default"), f.Tag.Get("doc"))
		}
	}
}
