// Package amqpidem brings the messages of RabbitMQ 3.10 or newer to package mqidem, and those of
// package outbox to RabbitMQ.
//
//	src, err := amqpidem.Open(ctx, "amqp://127.0.0.1", "orders", nil)
//	err = mqidem.Consume(ctx, src, mqidem.Once(engine, "stock", reserve), nil)
//
// # Queues
//
// A work queue "orders" has beside it the parking queue "orders.dead", and a delay queue for each
// wait, such as "orders.delay.30000", whose messages expire into the work queue. One queue per
// wait, since a queue expires its messages from the front only: a long wait would hold up the short
// ones behind it. [Declare] makes them, and [Open] does by default.
//
// With [Options].Quorum all of them are quorum queues, and what expires is handed over at least
// once. Classic queues hand over without a confirmation: a broker that dies in that moment may lose
// the message. Take quorum queues where that counts.
//
// Permissions: to declare, a user configures the queues and "amq.default" is writable; to consume
// with [Options].Passive, the work queue is readable and "amq.default" writable; to walk what is
// parked and to put it back, the parking queue is readable and "amq.default" writable.
//
// # What comes again
//
// RabbitMQ delivers at least once, and so does a later try: its copy is confirmed before the
// message is acked, and where the connection breaks in between both are there. An ack is not
// answered, and may be lost with the connection or with the broker. That is what mqidem.Once is
// for.
//
// Each delivery is settled by the channel that it came by. When that is gone, Ack is
// mqidem.ErrStale and reaches nothing: tags of a new channel begin anew, and an old one would be
// another message's.
//
// RabbitMQ takes back what a consumer has held for longer than its consumer_timeout, 30 minutes by
// default, and nothing that a client does changes that: where messages take longer, raise it. The
// time runs from the delivery to the client, so a large [Options].Prefetch counts.
//
// Under an alarm of the broker's disk or memory nothing can be published: later tries and parking
// fail in their time, and acks go on.
//
// The client cannot read headers that are nested more than 32 deep, or have more than 8192 parts:
// it ends the connection, and the broker delivers the message again. A source then gets nothing
// else, and says in its log what to do.
//
// # Messages
//
// Later tries, parked messages and those that are put back keep all properties and headers, with
// their types, except: the broker's own (x-death, x-delivery-count); CC, by which the broker would
// send each copy to other queues too; expiration, which would end a wait, or drop what is parked;
// and a user-id that is not this connection's, which the broker refuses. The exchange becomes the
// default one; the routing key is in the header [HeaderRoutingKey]. All copies are persistent.
package amqpidem
