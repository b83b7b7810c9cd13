package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Error is an error at one place of a configuration file.
type Error struct {
	// File is the path given to [Load]; Parse sets "configuration".
	File string
	// Line and Column begin at 1. Zero: the error is about the file as a whole.
	Line, Column int
	Message      string
	cause        error
}

// Error returns file:line:column: message, as compilers do.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column)
	}
	return at + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// at matches the place at the start of a message of the YAML parser, or of wrong.
var placePattern = regexp.MustCompile(`^\[(\d+):(\d+)\] `)

var unknownField = regexp.MustCompile(`^unknown field "([^"]*)"`)

// removedOptions are the options of earlier versions, and what to do about each.
var removedOptions = map[string]string{
	"fast_path": "net/http serves all requests now; delete the line",
}

// errorFromMessage returns the error for a message that starts with its place.
func errorFromMessage(file, message string, cause error) *Error {
	e := &Error{File: file, Message: strings.TrimSpace(message), cause: cause}
	if m := placePattern.FindStringSubmatch(message); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Column, _ = strconv.Atoi(m[2])
		e.Message = strings.TrimSpace(message[len(m[0]):])
	}
	switch m := unknownField.FindStringSubmatch(e.Message); {
	case m != nil && removedOptions[m[1]] != "":
		e.Message = m[1] + " is no option any more: " + removedOptions[m[1]]
	case m != nil:
		e.Message += suggestName(m[1], optionNames)
	case wrongType.MatchString(e.Message):
		e.Message = wrongType.ReplaceAllStringFunc(e.Message, func(text string) string {
			m := wrongType.FindStringSubmatch(text)
			return fmt.Sprintf("this is %s; write %s", kindOf(m[1]), kindOf(m[2]))
		})
	default:
		e.Message = translateNames(e.Message)
	}
	return e
}

// wrongType matches the YAML parser's message for a value of the wrong type, which has Go names.
var wrongType = regexp.MustCompile(`cannot unmarshal (\S+) into Go (?:struct field \S+|value) of type (\S+)`)

// kindOf returns the words for a Go type.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "bool"):
		return "true or false"
	case strings.HasPrefix(name, "[]"), name == "sequence":
		return "a list"
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"), strings.HasPrefix(name, "float"):
		return "a number"
	case strings.HasSuffix(name, "string"):
		return "a text"
	}
	return "a value of another kind"
}
