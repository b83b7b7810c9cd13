package cli

// chineseShort translates the line that says what a command is for. The key is the English text.
var chineseShort = map[string]string{ //nolint:gosec // help, no credentials
	// advise
	"Report what happens if an SQL statement runs twice, and which guard it needs": "报告一条 SQL 语句执行两次会怎样，以及它需要哪种 guard",

	// bench
	"Measure a store": "测量存储",
	"Measure how many keys a second a store handles": "测量一个存储每秒能处理多少个键",

	// capacity
	"Estimate what a store and a gateway need": "估算存储和网关需要多少资源",

	// check
	"Examine whether an HTTP API is safe to retry": "检查一个 HTTP API 能否安全地重试",

	// console
	"Serve a page that lists and resolves what is in doubt": "提供一个页面，列出并处理存疑的记录",
	"Make a token for a caller":                             "为调用者生成一个令牌",

	// dlq
	"List dead letters, and redrive or discard them": "列出死信，重投或丢弃它们",
	"List dead letters":    "列出死信",
	"Show one dead letter": "显示一条死信",

	// dlqredrive
	"Put dead letters back in their queue":           "把死信放回原来的队列",
	"Delete dead letters":                            "删除死信",
	"Redrive dead letters at an interval, by a rule": "每隔一段时间按规则重投死信",

	// gateway
	"Run a proxy that makes the requests to a service safe to repeat": "运行一个代理，让发给服务的请求可以安全地重复",

	// ids
	"Serve unique ids over HTTP":                               "用 HTTP 提供唯一的 ID",
	"Serve unique ids over HTTP, for programs in any language": "用 HTTP 为任何语言的程序提供唯一的 ID",

	// keys
	"Print what the store keeps about a caller":                         "打印存储里关于一个调用者的内容",
	"Remove what the store keeps about a caller, and run nothing again": "删除存储里关于一个调用者的内容，并且什么也不会再次执行",
	"List the records of a store, and resolve those in doubt":           "列出存储里的记录，处理存疑的记录",
	"List records":    "列出记录",
	"Show one record": "显示一条记录",

	// migrate
	"Create or update the tables of a SQL store": "创建或更新 SQL 存储的表",

	// outbox
	"Delete dead messages": "删除死信",

	"List what an outbox holds up, and redrive or discard it":       "列出发件箱里卡住的消息，重投或丢弃它们",
	"Count the messages of an outbox, and list those that are dead": "统计发件箱的消息，并列出死信",
	"Publish dead messages again, in their places":                  "在原来的位置重新发布死信",

	// quota
	"Show what a tenant uses of its limits": "显示一个租户的限额用了多少",

	// resolve
	"Let the next request with a key run": "让一个键的下一个请求执行",
	"Resolve a request in doubt":          "处理一个存疑的请求",

	// resume
	"List abandoned calls, and let a program finish them": "列出被遗弃的调用，并让一个程序完成它们",

	// root
	"Make requests safe to repeat: each takes effect once, and every duplicate gets the first answer": "让请求可以安全地重复：每个请求只生效一次，每个重复请求都得到第一次的响应",

	// seal
	"Manage the keys of a sealed store":                   "管理加密存储的密钥",
	"Print a new key file with one key":                   "打印一个新的密钥文件，里面有一个密钥",
	"Encrypt all data keys with the current master key":   "用当前主密钥加密所有数据密钥",
	"Destroy a tenant's data key, and so all its answers": "销毁一个租户的数据密钥，从而销毁它的全部响应",

	// restore
	"See whether a store went back to an older state, and accept it": "查看存储是否回到了较早的状态，并予以接受",
	"Show whether the store of a namespace went back":                "显示一个命名空间的存储是否回退",
	"Run new keys again after the store went back":                   "存储回退之后，让新的键重新执行",
	// secret
	"Check the secret of a store, or replace it":                  "检查存储的 secret，或更换它",
	"Check whether RETRYSAFE_SECRET is the secret of a namespace": "检查 RETRYSAFE_SECRET 是不是一个命名空间的 secret",
	"Make RETRYSAFE_SECRET the secret of a namespace":             "把 RETRYSAFE_SECRET 设为一个命名空间的 secret",

	// version
	"Print the version and the commit": "打印版本和提交",

	// demo
	"Show duplicates that take effect twice without protection, and once with it": "演示重复请求：没有保护时生效两次，有保护时生效一次",

	// shop
	"The order and payment service of the demonstration": "演示用的订单和付款服务",
}
