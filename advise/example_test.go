package advise_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe/advise"
)

func ExampleAdvise() {
	r, err := advise.Advise("UPDATE orders SET status = 3 WHERE id = ? AND status = 2; UPDATE hits SET n = n + 1", "", advise.MySQL)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range r.Advice {
		fmt.Println(a.Verdict, a.Guards)
	}
	// Output:
	// guarded [guard.Machine]
	// needs a guard [retrysafe.DoTx guard.Version]
}
