package amqpidem_test

const childURL = "RETRYSAFE_TEST_AMQP_CHILD"

func child(string) int { return 0 }
