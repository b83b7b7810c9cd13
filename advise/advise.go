package advise

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Dialect is the SQL dialect of a database.
type Dialect string

// The dialects.
const (
	// Any tries SQLite, MySQL and PostgreSQL in this order, and uses the first whose parser accepts
	// all of the text.
	Any        Dialect = ""
	MySQL      Dialect = "mysql" // also MariaDB, as far as they agree
	PostgreSQL Dialect = "postgres"
	SQLite     Dialect = "sqlite"
)

// Verdict says what happens when a statement runs again.
type Verdict string

// The verdicts, from best to worst.
const (
	// Harmless means that running it again changes nothing more.
	Harmless Verdict = "harmless"
	// Guarded means that the statement carries a guard, under the condition that Why names.
	Guarded Verdict = "guarded"
	// Unknown means that it depends on what the text does not say.
	Unknown Verdict = "unknown"
	// NeedsGuard means that running it again has an effect again.
	NeedsGuard Verdict = "needs a guard"
)

// rank orders verdicts.
var verdictRank = map[Verdict]int{Harmless: 0, Guarded: 1, Unknown: 2, NeedsGuard: 3}

// Advice is the advice on one statement.
type Advice struct {
	// Line and Column are where the statement begins, from 1. A column is a character.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Statement is the statement's text.
	Statement string  `json:"statement"`
	Verdict   Verdict `json:"verdict"`
	// Why has full sentences. The first one gives the decisive reason.
	Why []string `json:"why"`
	// Guards are the suitable guards, the best first: names of package guard, or "retrysafe.DoTx".
	Guards []string `json:"guards,omitempty"`
}

// Report is the advice on a text.
type Report struct {
	// Dialect is the dialect in which the text was parsed.
	Dialect Dialect  `json:"dialect"`
	Advice  []Advice `json:"advice"`
}

// Worst returns the worst verdict, or Harmless if there is no statement.
func (r *Report) Worst() Verdict {
	worst := Harmless
	for i := range r.Advice {
		if v := r.Advice[i].Verdict; verdictRank[v] > verdictRank[worst] {
			worst = v
		}
	}
	return worst
}

// Limits of a text: parsers recurse into nested parts, and a stack overflow would end the process.
const (
	mostBytes = 256 << 10
	mostDepth = 500
)

// Advise gives advice on statements, which are separated by semicolons. schema is more text of the
// same dialect, of which only CREATE TABLE, CREATE UNIQUE INDEX and ALTER TABLE count. It may be
// empty. Such statements in text count as well. The error joins a [*SyntaxError] for each dialect
// that was tried, or says what else is wrong with the text.
//
// It is safe for concurrent use.
func Advise(text, schema string, d Dialect) (*Report, error) {
	for _, t := range []string{text, schema} {
		if err := checkLimits(t); err != nil {
			return nil, err
		}
	}
	tries := []Dialect{d}
	if d == Any {
		tries = []Dialect{SQLite, MySQL, PostgreSQL}
	}
	var errs []error
	for _, d := range tries {
		r, err := adviseIn(text, schema, d)
		if err == nil {
			return r, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// checkLimits checks the limits of a text before a parser sees it.
func checkLimits(text string) error {
	if len(text) > mostBytes {
		return fmt.Errorf("advise: the text has %d bytes; at most %d are read at once: divide it", len(text), mostBytes)
	}
	if nestsTooDeep(text) {
		return fmt.Errorf("advise: brackets are nested more than %d deep; divide the statement, or bind its values as parameters", mostDepth)
	}
	if strings.ContainsRune(text, 0) {
		return errors.New("advise: the text has a zero byte; is it SQL?")
	}
	return nil
}

// adviseIn parses both texts in one dialect.
func adviseIn(text, schema string, d Dialect) (*Report, error) {
	parse, ok := parsers[d]
	if !ok {
		return nil, fmt.Errorf("advise: there is no dialect %q; use mysql, postgres or sqlite", string(d))
	}
	read := replaceMyBatisParameters(text, d)
	tables, err := parseSafely(parse, schema, d)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	statements, err := parseSafely(parse, read, d)
	if err != nil {
		return nil, err
	}
	return buildReport(statements, newSchema(slices.Concat(tables, statements), d), text, d), nil
}

// parsers convert text to statements of this package. Their *SyntaxError need not set the dialect.
var parsers = map[Dialect]func(text string) ([]statement, error){
	MySQL: parseMySQL, PostgreSQL: parsePostgres, SQLite: parseSQLite,
}

// parseSafely calls a parser, and converts a panic to an error.
func parseSafely(parse func(string) ([]statement, error), text string, d Dialect) (all []statement, err error) {
	defer func() {
		if p := recover(); p != nil {
			all, err = nil, &SyntaxError{Dialect: d, Message: "its parser gave up on this text; send it statement by statement to find out which"}
		}
		if e, ok := errors.AsType[*SyntaxError](err); ok {
			e.Dialect = d
		}
	}()
	if skipBlanks(text, 0) == len(text) {
		return nil, nil
	}
	return parse(text)
}

func buildReport(statements []statement, s *schema, text string, d Dialect) *Report {
	r := &Report{Dialect: d, Advice: []Advice{}}
	for i := range statements {
		a := adviseOn(&statements[i], s)
		at := statements[i].at
		a.Line, a.Column = lineAndColumn(text, at)
		a.Statement = strings.TrimSpace(text[at:min(len(text), max(at, statements[i].end))])
		r.Advice = append(r.Advice, a)
	}
	return r
}

// nestsTooDeep reports whether too many brackets are open at once, also counting those in quotes.
func nestsTooDeep(text string) bool {
	open := 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '[', '{':
			if open++; open > mostDepth {
				return true
			}
		case ')', ']', '}':
			open = max(0, open-1)
		}
	}
	return false
}
