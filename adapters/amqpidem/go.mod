module github.com/retrysafe/retrysafe/adapters/amqpidem

go 1.26.0

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/retrysafe/retrysafe v0.1.0
)
