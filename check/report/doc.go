// Package report writes what an examination found: for a person in a terminal ([Table],
// [Progress]), as one page for a browser ([HTML]), and for other programs ([JSON], [JUnit],
// [SARIF]). [Page] and [Overview] write the documentation of the checks.
//
// Text of the examined API is data from outside. No form lets it control a terminal, run in a
// browser, or end an element.
package report
