module github.com/retrysafe/retrysafe/adapters/amqpidem

go 1.26.0

replace github.com/retrysafe/retrysafe => ../../

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/retrysafe/retrysafe v0.0.0
)
