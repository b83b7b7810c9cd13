package retrysafe

// core is what all views of an engine share: the runtime, and the parts that look after attempts.
type core struct {
	*runtime

	beat     heartbeat
	waiting  waitRoom
	quotas   quotas
	giveBack givingBack
}

func newCore(rt *runtime) *core {
	c := &core{runtime: rt}
	c.beat = heartbeat{rt: rt, kick: make(chan struct{}, 1)}
	c.waiting = waitRoom{rt: rt, rooms: make(map[waitKey]*room)}
	c.quotas = quotas{rt: rt, slots: make(chan struct{}, chargesAtOnce)}
	c.giveBack.rt = rt
	return c
}
