//go:build !race

package fingerprint_test

const raceDetector = false
