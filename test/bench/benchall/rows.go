package main

// gatewayRows are the rows of the comparison with nginx: of each load, with two workers of nginx
// and two processors of the gateway, and with one of each.
func gatewayRows() (rows []row) {
	for _, w := range []struct{ prefix, text string }{{"two/", "two workers"}, {"one/", "one worker"}} {
		for _, l := range []struct {
			load, text string
			rate, cpu  goal
		}{
			{"new keys", "new keys", goal{least: 1}, goal{most: 1}},
			{"repeats, cold", "repeats, each once", goal{least: 1.3}, goal{}},
			{"repeats, 100 hot keys", "repeats of 100 keys", goal{least: 1.8}, goal{}},
		} {
			figure := func(side, unit string) string { return w.prefix + l.load + "/" + side + " " + unit }
			add := func(text, unit, shown string, g goal) {
				rows = append(rows, row{text: w.text + ", " + l.text + ": " + text, ours: figure("retrysafe", unit), rival: figure("nginx", unit), unit: shown, goal: g})
			}
			add("requests", "requests/s", "/s", l.rate)
			add("processor time of the gateway", "gateway-µs", "µs", l.cpu)
			if l.load != "repeats, 100 hot keys" { // those are answered from copies
				add("processor time of Redis", "redis-µs", "µs", goal{})
			}
		}
	}
	return rows
}

// txRows are the rows of DoTx beside another transaction, with the goal of each database.
func txRows(rival string, postgres, pgx, mariaDB, sqlite float64) (rows []row) {
	for _, db := range []struct {
		bench, text string
		most        float64
	}{{"PostgreSQL", "PostgreSQL, database/sql", postgres}, {"pgx", "PostgreSQL, pgx", pgx}, {"MariaDB", "MariaDB", mariaDB}, {"SQLite", "SQLite", sqlite}} {
		rows = append(rows, row{text: db.text, ours: "Tx/" + db.bench + " DoTx-µs", rival: "Tx/" + db.bench + " " + rival, unit: "µs", goal: goal{most: db.most}})
	}
	return rows
}

func callerRows() (rows []row) {
	for _, db := range []struct{ bench, text string }{{"SQLite", "SQLite"}, {"Postgres", "PostgreSQL"}, {"MySQL", "MariaDB"}} {
		for _, call := range []struct{ bench, text string }{{"acquire+complete", "acquire and complete (two commits)"}, {"replay", "replay"}, {"extend", "extend"}} {
			rows = append(rows, row{text: db.text + ", " + call.text, ours: db.bench + "/" + call.bench + " ns/op", unit: "µs", scale: 0.001})
		}
	}
	return rows
}

func guardRows() (rows []row) {
	for _, g := range []struct{ bench, text string }{
		{"Version", "`Version.Update`, two columns and a key"},
		{"Unique.Insert", "`Unique.Insert`, three columns and a key"},
		{"Unique.Try", "`Unique.Try` with its savepoint"},
		{"PrimaryKey", "`PrimaryKey.Insert`"},
		{"Machine.Move", "`Machine.Move`, one column beside the state"},
		{"Machine.MoveBy", "`Machine.MoveBy`"},
		{"Condition", "`Condition.Subtract`"},
		{"RowLock", "`RowLock.Lock`, two columns, both looks"},
		{"Fence", "`Fence.Check`"},
		{"Upsert", "`Upsert.Put`"},
	} {
		rows = append(rows, row{text: g.text, ours: "Guards/" + g.bench + " ns/op", unit: "µs", scale: 0.001})
	}
	return rows
}
