// Package examples has whole programs, one for each scene, each in its folder with a README. A test
// of each starts it as a process, sends requests twice, and kills it where that is the point.
package examples
