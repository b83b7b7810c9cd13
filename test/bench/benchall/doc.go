// Command benchall runs every comparison of docs/benchmarks.md and writes its tables.
//
// Each comparison is a list of rows: our figure, that of a rival in the same run, and a goal.
// Programs run in rounds, one after the other, so that a slow moment of the machine meets all of
// them. A figure is the median of its rounds, with the least and the most; a ratio is the median of
// the ratios of the rounds. A row that misses its goal is marked.
package main
