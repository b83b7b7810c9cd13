package advise

import (
	"strconv"
	"strings"
)

// columnClass is how the values of a column are read and compared.
type columnClass uint8

const (
	anyClass columnClass = iota // the text does not say
	numberClass
	textClass
	truthClass
	timeClass
	otherClass
)

// columnType is the type of a column, as far as the rules need it.
type columnType struct {
	class columnClass
	// precision is the number of digits of a second that are kept, of a timestamp.
	precision int
	// inexact: it rounds whole numbers, too, as REAL does.
	inexact bool
}

// clockDigits is how many digits of a second a clock needs, so that two runs do not see the same
// time.
const clockDigits = 3

var (
	numberTypes = wordSet(`int integer int2 int4 int8 smallint bigint tinyint mediumint serial bigserial smallserial serial2 serial4 serial8 numeric
		decimal dec real float float4 float8 double`)
	inexactTypes = wordSet(`real float float4 float8 double`)
	textTypes    = wordSet(`text varchar char character bpchar name citext tinytext mediumtext longtext clob nvarchar nchar enum`)
	timeTypes    = wordSet(`timestamp timestamptz datetime date time timetz year interval`)
)

// typeByName returns the type of a name, without its dialect's defaults. precision is the number in
// brackets, if there is one.
func typeByName(name, precision string) columnType {
	first, _, _ := strings.Cut(strings.ToLower(name), " ")
	first, _, _ = strings.Cut(first, "(")
	t := columnType{class: otherClass}
	switch {
	case first == "":
		t.class = anyClass
	case numberTypes[first]:
		t.class, t.inexact = numberClass, inexactTypes[first]
	case textTypes[first]:
		t.class = textClass
	case first == "bool", first == "boolean":
		t.class = truthClass
	case timeTypes[first]:
		t.class = timeClass
	}
	if first == "timestamp" || first == "timestamptz" || first == "datetime" {
		t.precision, _ = strconv.Atoi(precision)
	}
	return t
}

// postgresType returns a type of PostgreSQL. A name that is unknown may be an enumeration.
func postgresType(names []string, precision string) columnType {
	if len(names) == 0 {
		return columnType{}
	}
	name := names[len(names)-1]
	t := typeByName(name, precision)
	if precision == "" && (name == "timestamp" || name == "timestamptz") {
		t.precision = 6
	}
	if t.class == otherClass && !otherTypes[name] {
		t.class = anyClass
	}
	return t
}

// otherTypes are types of PostgreSQL that are no enumerations.
var otherTypes = wordSet(`json jsonb bytea uuid inet cidr macaddr bit varbit money xml point box circle line lseg path polygon tsvector tsquery
	int4range int8range numrange tsrange tstzrange daterange oid hstore geometry geography`)
