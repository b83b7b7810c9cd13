package main

import (
	"fmt"
	"slices"
	"strings"
)

// figure is the result of one round of one side.
type figure struct{ rate, gateway, redis float64 } // requests per second; microseconds a request

// usualConnections is enough for all rounds.
const usualConnections = 4096

func runRounds(rounds, n, conns, workers int, only, load, builds string) error {
	w, err := startProcesses(workers, usualConnections, builds)
	if err != nil {
		return err
	}
	defer w.close()
	got := map[string]map[string][]figure{}
	for _, l := range loads {
		if !strings.Contains(l.name, load) {
			continue
		}
		got[l.name] = map[string][]figure{}
		for round := range rounds {
			for _, s := range w.sides {
				if only != "" && !strings.Contains(","+only+",", ","+s.name+",") {
					continue
				}
				f, err := w.runRound(s, l, round, n, conns)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, l.name, err)
				}
				got[l.name][s.name] = append(got[l.name][s.name], f)
				fmt.Printf("%-22s %-10s round %d: %8.0f requests/s, gateway %6.1f us, Redis %5.1f us a request\n",
					l.name, s.name, round+1, f.rate, f.gateway, f.redis)
			}
		}
	}
	for _, s := range w.sides[1:] {
		if only == "" {
			printRatios(got, s.name, w.sides[0].name)
		}
	}
	return nil
}

func printRatios(got map[string]map[string][]figure, one, other string) {
	fmt.Printf("\n%-22s %14s %14s %14s\n", one+" over "+other, "requests/s", "gateway CPU", "Redis CPU")
	for _, load := range loads {
		ours, anchor := got[load.name][one], got[load.name][other]
		if len(ours) == 0 {
			continue
		}
		ratio := func(of func(figure) float64) float64 { return medianFigure(ours, of) / medianFigure(anchor, of) }
		fmt.Printf("%-22s %13.2fx %13.2fx %13.2fx\n", load.name, ratio(func(f figure) float64 { return f.rate }),
			ratio(func(f figure) float64 { return f.gateway }), ratio(func(f figure) float64 { return f.redis }))
	}
}

func medianFigure(all []figure, of func(figure) float64) float64 {
	var v []float64
	for _, f := range all {
		v = append(v, of(f))
	}
	slices.Sort(v)
	return v[len(v)/2]
}
