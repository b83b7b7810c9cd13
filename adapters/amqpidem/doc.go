// Package amqpidem connects package mqidem to RabbitMQ 3.10 or newer, and publishes the messages of
// package outbox to RabbitMQ.
//
//	src, err := amqpidem.Open(ctx, "amqp://127.0.0.1", "orders", nil)
//	err = mqidem.Consume(ctx, src, mqidem.Once(engine, "stock", reserve), nil)
//
// # Queues
//
// A work queue "orders" has a dead-letter queue "orders.dead" and a delay queue for each wait, such
// as "orders.delay.30000". Messages of a delay queue expire into the work queue. Each wait needs
// its own queue, since a queue expires messages only from its front: a long wait would hold up the
// short ones after it. [Declare] makes the queues, and so does [Open] by default.
//
// With [Options].Quorum all of them are quorum queues, and expired messages are moved at least
// once. Classic queues move them without a confirmation: if the broker dies in that moment, a
// message may be lost. Use quorum queues if that matters.
//
// Permissions: to declare, a user needs to configure the queues and to write to "amq.default". To
// consume with [Options].Passive, the user needs to read the work queue and to write to
// "amq.default". To walk and redrive dead letters, the user needs to read the dead-letter queue and
// to write to "amq.default".
//
// # Redeliveries
//
// RabbitMQ delivers at least once, and so does a later try: its copy is confirmed before the
// message is acked. If the connection breaks in between, both exist. RabbitMQ does not answer an
// ack, and an ack may be lost with the connection or the broker. mqidem.Once handles that.
//
// A delivery is settled on the channel that it came from. If that channel is gone, Ack returns
// mqidem.ErrStale and has no effect: a new channel numbers its tags from the start, so an old tag
// would be another message's.
//
// RabbitMQ takes a message back if a consumer has held it for longer than consumer_timeout, 30
// minutes by default. A client cannot change that. If messages take longer, raise it. The time
// starts when the client receives the delivery, so a large [Options].Prefetch counts.
//
// During an alarm of the broker's disk or memory nothing can be published: later tries and dead
// letters fail after their timeout, and acks still work.
//
// The client cannot read headers that are nested more than 32 deep or have more than 8192 parts. It
// ends the connection, and the broker delivers the message again. A source then gets no other
// message, and logs what to do.
//
// # Messages
//
// Copies for later tries, dead letters and redriven messages keep all properties and headers, with
// their types, except: the broker's own headers (x-death, x-delivery-count); CC, which would make
// the broker send each copy to other queues too; expiration, which would end a wait or drop a dead
// letter; and a user-id of another user than this connection's, which the broker refuses. The
// exchange becomes the default one; the routing key is in the header [HeaderRoutingKey]. All copies
// are persistent.
package amqpidem
