package main

import "time"

// sizes are the numbers of stored records at which stores are measured.
var sizes = []struct{ records, figure, text string }{
	{"1000x", "1e3/", "10³"}, {"1000000x", "1e6/", "10⁶"}, {"10000000x", "1e7/", "10⁷"},
}

// growthStores are the stores, as the benchmarks name them.
var growthStores = []string{"SQLite", "PostgreSQL", "MariaDB", "Redis"}

// growthPrograms fill stores with each number of records.
func growthPrograms() (all []program) {
	for _, size := range sizes {
		for _, pkg := range []string{"./sql", "./redis"} {
			all = append(all, program{dir: "test/servers", pkg: pkg, bench: "Growth", time: size.records, quick: "100x", prefix: size.figure, most: 30 * time.Minute})
		}
	}
	return all
}

// growthRow is a row of a figure at one size, beside the same store without records.
func growthRow(store, size, what string) row {
	return row{ours: size + "Growth/" + store + " full-" + what + "/s", rival: size + "Growth/" + store + " empty-" + what + "/s", unit: "/s", goal: goal{least: 0.8}}
}

func growthRows() (rows []row) {
	for _, store := range growthStores {
		for _, size := range sizes {
			add := func(r row, text string) {
				r.text = store + ", " + size.text + ": " + text
				rows = append(rows, r)
			}
			add(growthRow(store, size.figure, "keys"), "new keys")
			add(growthRow(store, size.figure, "replays"), "replays")
			if store != "Redis" { // which removes expired records itself
				add(row{
					ours: size.figure + "Growth/" + store + " sweep-keys/s", rival: size.figure + "Growth/" + store + " empty-keys/s", unit: "/s",
				}, "new keys beside a sweep")
			}
			add(row{ours: size.figure + "Growth/" + store + " ms-page", unit: "ms"}, "the first 100 doubts")
		}
	}
	return rows
}

// growthChart shows the ratios of growthRows.
func growthChart() *chart {
	c := &chart{file: "growth.svg", least: 0.8}
	for _, size := range sizes {
		c.ticks = append(c.ticks, size.text)
	}
	for _, what := range []string{"keys", "replays"} {
		p := panel{title: map[string]string{"keys": "new keys", "replays": "replays"}[what] + ", full / empty"}
		for _, store := range growthStores {
			s := series{name: store}
			for _, size := range sizes {
				s.points = append(s.points, growthRow(store, size.figure, what))
			}
			p.series = append(p.series, s)
		}
		c.panels = append(c.panels, p)
	}
	return c
}
