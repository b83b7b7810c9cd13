package main

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// samples has the values of each figure, one for each round. The name of a figure is that of its
// benchmark, without "Benchmark" and the number of processors, and its unit: "Tx/SQLite bare-µs".
type samples map[string][]float64

// processorSuffix is what package testing appends to the name of a benchmark.
var processorSuffix = regexp.MustCompile(`-\d+$`)

// addBenchmarks adds the figures of the output of a Go benchmark, with a prefix of their names.
func (s samples) addBenchmarks(prefix string, out []byte) error {
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") || len(f)%2 != 0 {
			continue
		}
		name := prefix + processorSuffix.ReplaceAllString(strings.TrimPrefix(f[0], "Benchmark"), "")
		for i := 2; i < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return fmt.Errorf("%q is no number in the line %q", f[i], lines.Text())
			}
			s[name+" "+f[i+1]] = append(s[name+" "+f[i+1]], v)
		}
		n++
	}
	if n == 0 {
		return fmt.Errorf("no figures in the output:\n%s", out)
	}
	return nil
}

// gatewayRound matches a round of gatewaybench.
var gatewayRound = regexp.MustCompile(`^(\S.*?) {2,}(\S.*?) +round +\d+: +([\d.]+) requests/s, gateway +([\d.]+) us, Redis +([\d.]+) us`)

// idleRound matches a round of gatewaybench -idle.
var idleRound = regexp.MustCompile(`^(idle) +(\S.*?) +round +\d+: +([\d.]+) KB a connection`)

// addGatewayRounds adds the figures of the output of gatewaybench.
func (s samples) addGatewayRounds(prefix string, out []byte) error {
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		units := []string{"requests/s", "gateway-µs", "redis-µs"}
		m := gatewayRound.FindStringSubmatch(lines.Text())
		if m == nil {
			units, m = []string{"KB"}, idleRound.FindStringSubmatch(lines.Text())
		}
		if m == nil {
			continue
		}
		for i, unit := range units {
			v, err := strconv.ParseFloat(m[3+i], 64)
			if err != nil {
				return err
			}
			name := prefix + m[1] + "/" + m[2] + " " + unit
			s[name] = append(s[name], v)
		}
		n++
	}
	if n == 0 {
		return fmt.Errorf("no figures in the output:\n%s", out)
	}
	return nil
}

// spread is the median of some values, the least and the most.
type spread struct{ median, least, most float64 }

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	return spread{v[len(v)/2], v[0], v[len(v)-1]}
}

// medianRatio returns the median of the ratios of the rounds.
func medianRatio(ours, rival []float64) (float64, error) {
	if len(ours) != len(rival) {
		return 0, fmt.Errorf("%d rounds of ours and %d of the rival", len(ours), len(rival))
	}
	r := make([]float64, len(ours))
	for i := range ours {
		if rival[i] == 0 {
			return 0, fmt.Errorf("the rival's figure of round %d is zero", i+1)
		}
		r[i] = ours[i] / rival[i]
	}
	return spreadOf(r).median, nil
}
