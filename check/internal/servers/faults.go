package servers

import "time"

// faults are the mistakes of a shop. The zero value has none.
type faults struct {
	// forgetsBody replays the answer to another body.
	forgetsBody bool
	// forgetsCaller and forgetsRoute leave these out of what a key is looked up by.
	forgetsCaller, forgetsRoute bool
	// successFirst stores the answer before the work, and leaves it there if the work fails.
	successFirst bool
	// window is the time between the look whether a key is new and the claim of it.
	window time.Duration
	// trustsStrangers replays to a request without credentials.
	trustsStrangers bool
	// leaks puts the stored answer into refusals: 401 and 422.
	leaks bool
	// losesHeader replays without the fields of the first answer.
	losesHeader bool
	// answersEarly answers 200 to a duplicate while the first request runs.
	answersEarly bool
	// forgetsAtRestart keeps the answers in memory.
	forgetsAtRestart bool
	// kept is how long answers are kept, if that is less than the shop promises.
	kept time.Duration
	// takesFirstKey accepts a request with two keys.
	takesFirstKey bool
	// foldsCase takes keys that differ in case only for one.
	foldsCase bool
	// cutsKeys takes keys of which the first 32 characters are the same for one.
	cutsKeys bool
	// trimsKeys reads a key in quotes, and takes those that differ in spaces at the end for one.
	trimsKeys bool
	// foldsAccents takes keys that differ in an accent only for one.
	foldsAccents bool
	// comparesAmount leaves all members but the amount out of the digest of a request.
	comparesAmount bool
	// replaysAtMost is how often an answer is replayed before it is forgotten. Zero: always.
	replaysAtMost int
	// keepsAtMost is how many answers are kept: a newer one pushes out the oldest. Zero: all.
	keepsAtMost int
	// refusesDuplicates answers each duplicate with 409 for good. It is no mistake: a contract may
	// say so.
	refusesDuplicates bool
}

// promised is how long the shops keep answers, but for the one that does not.
const promised = 24 * time.Hour

// Broken returns the shops with one fault each.
func Broken() []Shop {
	return []Shop{
		newFaultyShop("forgets-body", faults{forgetsBody: true}),
		newFaultyShop("forgets-caller", faults{forgetsCaller: true}),
		newFaultyShop("success-before-work", faults{successFirst: true}),
		newFaultyShop("check-then-act", faults{window: 50 * time.Millisecond}),
		newFaultyShop("trusts-strangers", faults{trustsStrangers: true}),
		newFaultyShop("leaks-in-refusals", faults{leaks: true}),
		newFaultyShop("loses-header", faults{losesHeader: true}),
		newFaultyShop("answers-early", faults{answersEarly: true}),
		newFaultyShop("forgets-at-restart", faults{forgetsAtRestart: true}),
		newFaultyShop("expires-early", faults{kept: 2 * time.Second}),
		newFaultyShop("takes-first-key", faults{takesFirstKey: true}),
		newFaultyShop("forgets-route", faults{forgetsRoute: true}),
		newFaultyShop("folds-case", faults{foldsCase: true}),
		newFaultyShop("cuts-keys", faults{cutsKeys: true}),
		newFaultyShop("trims-keys", faults{trimsKeys: true}),
		newFaultyShop("folds-accents", faults{foldsAccents: true}),
		newFaultyShop("compares-amount", faults{comparesAmount: true}),
		newFaultyShop("replays-eight-times", faults{replaysAtMost: 8}),
		newFaultyShop("keeps-eight-answers", faults{keepsAtMost: 8}),
	}
}

// Refusing returns a shop that answers each duplicate with 409, also when the first request has
// ended. It has no fault.
func Refusing() Shop { return newFaultyShop("refuses-duplicates", faults{refusesDuplicates: true}) }

func newFaultyShop(name string, f faults) Shop {
	return Shop{name, func(string) (disk, error) { return &shopDisk{faults: f, answers: map[slot]stored{}}, nil }}
}
