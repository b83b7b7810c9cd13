// Package kafkaidem takes messages from Kafka and publishes an outbox to it.
//
// [Create] makes a topic and the topic of its parked messages; [Open] is a mqidem.Source on a
// consumer group, [OpenParking] what was parked, [NewPublisher] an outbox.Publisher.
//
// Kafka keeps one number for a partition: all records before it are done. The source commits it up
// to the first record that is not settled, and never past it, so that a crash brings back what was
// settled behind that one, too. Unless [Options].Unordered is set, a partition has one message
// under way at a time, and one that waits for a later try holds up its partition. The wait is the
// process's own: whoever gets the partition after it does not know of it.
//
// When a partition goes to another consumer, nothing more of it is handed out, what is under way
// may end for [Options].Handover, and the number is committed. What has not ended then is stale
// here, and comes to the other one.
//
// A topic cannot lose single records, only all before an offset. So a walk of the parking writes
// those again at the end that are kept behind or before one that is removed, and then deletes all
// up to there: killed in between, it shows a message twice and loses none. A walk that removes
// nothing writes nothing, and needs no more than to read. One that removes needs the ACL Delete on
// the topic of parked messages. Do not run two walks of one parking at once: both might keep a
// message.
//
// The tests run on kfake, which speaks Kafka's protocol in memory, and not on a Kafka.
package kafkaidem
