package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// inheritedLater are the settings that the options of a route inherit: the limits by the policy
// that is made of them, and a time that depends on another one.
var inheritedLater = map[string]bool{"Limits": true, "TimeoutAnswer": true}

// TestSettingsAreInherited: a route takes each setting that it leaves out from the defaults.
func TestSettingsAreInherited(t *testing.T) {
	t.Parallel()
	all := reflect.TypeFor[settings]()
	for i := range all.NumField() {
		if inheritedLater[all.Field(i).Name] {
			continue
		}
		var base settings
		fill(reflect.ValueOf(&base).Elem().Field(i))
		got := settings{}.inheritFrom(&base)
		assert.True(t, reflect.DeepEqual(reflect.ValueOf(got).Field(i).Interface(), reflect.ValueOf(base).Field(i).Interface()),
			"inheritFrom does not take %s from the defaults", all.Field(i).Name)
	}
}

// fill sets the first scalar of a value, and all booleans, since one may say that it is set.
func fill(v reflect.Value) bool {
	// also of fields that are not exported
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	switch {
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if fill(v.Field(i)) && v.Field(i).Kind() != reflect.Bool {
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}

// withoutGoName are the settings that no message of Go names: each is a struct of its own, whose
// fields are named.
var withoutGoName = map[string]bool{"cors": true, "signature": true}

// TestSettingsHaveGoNames: messages of the packages name fields of Go, and what an operator reads
// names the settings of the file.
func TestSettingsHaveGoNames(t *testing.T) {
	t.Parallel()
	has := map[string]bool{}
	for _, option := range optionByGoName {
		has[option] = true
	}
	all := reflect.TypeFor[settings]()
	for i := range all.NumField() {
		name := all.Field(i).Tag.Get("yaml")
		assert.True(t, has[name] != withoutGoName[name], "optionByGoName has the Go name of %s, or withoutGoName says why not", name)
	}
}

// TestSectionsHaveEveryStruct: the reference has a table for each struct whose fields say what they
// are.
func TestSectionsHaveEveryStruct(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	assert.NoError(t, err, "files")
	var documented, listed []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		assert.NoError(t, err, "parse %s", name)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			is, ok := spec.Type.(*ast.StructType)
			if ok && slices.ContainsFunc(is.Fields.List, func(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, `doc:"`) }) {
				documented = append(documented, spec.Name.Name)
			}
			return true
		})
	}
	for _, s := range sections {
		listed = append(listed, s.structType.Name())
	}
	slices.Sort(documented)
	slices.Sort(listed)
	assert.Equal(t, listed, documented, "the structs in sections of reference.go")
}
