// Package amqpidem brings messages of RabbitMQ 3.10 or newer to package mqidem, and those of package outbox to RabbitMQ.
package amqpidem
