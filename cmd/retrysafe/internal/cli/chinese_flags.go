package cli

// chineseFlags translates what flags mean. The key is the English text.
var chineseFlags = map[string]string{ //nolint:gosec // help, no credentials
	// bench
	"the store: memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE": "存储：memory:、sqlite:PATH、redis://HOST、redis+sentinel://HOST/NAME、redis+cluster://HOST、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",
	"concurrent callers": "并发的调用者数量",
	"duration of each of the two parts, at most a minute":                                        "两个部分各自的时长，最长一分钟",
	"print one JSON object, and no progress":                                                     "打印一个 JSON 对象，不显示进度",
	"send each call alone: no group commit in SQL, no pipelining to Redis (memory: has neither)": "每个调用单独发送：SQL 不合并提交，Redis 不用流水线（memory: 两者都没有）",

	// capacity
	"new keys a second, on the average of the retention":     "每秒的新键数量，按保留期内的平均值",
	"how many times as many there are in the busiest second": "最繁忙的一秒是平均值的多少倍",
	"bytes of a stored answer, header fields included":       "一个保存的响应的字节数，包括响应头",
	"only this kind of store, by its address; without it, all: sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE": "只估算这一种存储，写它的地址；不写则估算全部：sqlite:PATH、redis://HOST、redis+sentinel://HOST/NAME、redis+cluster://HOST、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",
	"connections of clients to one gateway":           "客户端到一个网关的连接数",
	"requests that one gateway has in work at a time": "一个网关同时处理的请求数",
	"bytes of a request's body":                       "请求正文的字节数",

	// check
	"also examine this host, which is not on this machine": "也检查这台主机，它不在本机上",
	"run only these checks":                                "只运行这些检查项",
	"skip these checks":                                    "跳过这些检查项",
	"send at most this many requests":                      "最多发送多少个请求",
	"send at most this many requests a second, apart from the check that sends fifty at once": "每秒最多发送多少个请求；同时发送五十个请求的检查项不受此限",
	"longest wait for an effect, for the end of a request and for a restarted service":        "等待效果出现、请求结束和服务重启的最长时间",
	"how long to look for one effect too many; longer where effects come late":                "用多长时间查看有没有多出的效果；效果来得晚时要设得更长",
	"longest wait for an answer to expire":                                                    "等待响应过期的最长时间",
	"accept any certificate of an https API":                                                  "接受 https API 的任何证书",
	"show what would be sent, and send nothing":                                               "只显示将要发送什么，不发送",

	// checkabout
	"header field of the key": "放键的头",
	"another valid body, or @FILE; by default another number or string in the body":                                                                                "另一个有效的请求体，或 @FILE；默认改动请求体里的一个数字或字符串",
	`another operation of the API, 'POST /refunds {"amount":1}'`:                                                                                                   `API 的另一个操作，'POST /refunds {"amount":1}'`,
	"credentials of a second caller, 'Authorization: Bearer …'":                                                                                                    "第二个调用者的凭据，'Authorization: Bearer …'",
	"names of the fields that carry credentials; by default Authorization, Cookie, X-Api-Key":                                                                      "放凭据的头的名字；默认 Authorization、Cookie、X-Api-Key",
	"what makes the API answer 400 to 428: header:NAME: VALUE, body:TEXT, or run:COMMAND, which is run with on and off; by default the body without its last byte": "怎样让 API 返回 400 到 428：header:NAME: VALUE、body:TEXT 或 run:COMMAND，它会以参数 on 和 off 运行；默认发送缺最后一个字节的请求体",
	"what makes the API answer 429, as --client-error":                                                                                                             "怎样让 API 返回 429，写法同 --client-error",
	"what makes the API answer 500 to 599, as --client-error":                                                                                                      "怎样让 API 返回 500 到 599，写法同 --client-error",
	"command that restarts the service":                                                                                                                            "重启服务的命令",
	"how long the API promises to replay answers":                                                                                                                  "API 承诺在多长时间内重放响应",
	"check this contract to the letter: ietf, stripe or acp":                                                                                                       "严格按这份契约检查：ietf、stripe 或 acp",

	// checkoracle
	"page with the effects, and a JSONPath of what counts: 'GET /orders | $.total'; it is fetched with the request's credentials": "反映效果的页面，以及说明统计什么的 JSONPath：'GET /orders | $.total'；请求页面时使用请求的凭据",
	"command that prints the number of effects":                                                                                          "打印效果次数的命令",
	"count the webhooks that the API sends to this address, as 127.0.0.1:9999":                                                           "统计 API 发到这个地址的 webhook，例如 127.0.0.1:9999",
	"with --webhooks: field or JSONPath of a webhook's id, so that a webhook that is sent twice counts once":                             "与 --webhooks 一起用：webhook 的 ID 所在的头或 JSONPath，使发送两次的 webhook 只计一次",
	"start a proxy before the service and count what reaches it, 127.0.0.1:9000=http://localhost:8080; the guard must send to the proxy": "在服务前面启动一个代理，统计到达它的请求，127.0.0.1:9000=http://localhost:8080；防护组件必须把请求发给这个代理",

	// checkreport
	"write the report as JSON to this file, or - for the standard output in place of the table": "把报告以 JSON 写入这个文件；- 是标准输出，代替表格",
	"write the report as JUnit XML":    "把报告写成 JUnit XML",
	"write the report as SARIF 2.1.0":  "把报告写成 SARIF 2.1.0",
	"write the report as an HTML page": "把报告写成 HTML 页面",

	// checkrequest
	"method of the request": "请求的方法",
	"header field of the request, 'Name: value'; can be repeated":                    "请求的头，'Name: value'；可以重复",
	"body of the request, or @FILE":                                                  "请求体，或 @FILE",
	"file with a curl command, as browsers copy it, or - for the standard input":     "浏览器复制的 curl 命令所在的文件；- 是标准输入",
	"HAR file of a browser; --pick names the request":                                "浏览器的 HAR 文件；用 --pick 指明请求",
	"OpenAPI 3 document with examples; --pick names the operation":                   "带有示例的 OpenAPI 3 文档；用 --pick 指明操作",
	"request of --har or operation of --openapi: 'POST /orders', or its operationId": "--har 里的请求或 --openapi 里的操作：'POST /orders'，或它的 operationId",
	"with --openapi: URL of the API in place of the document's first server":         "与 --openapi 一起用：API 的 URL，代替文档里的第一个服务器",

	// console
	"the store, or RETRYSAFE_STORE: sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE": "存储，或 RETRYSAFE_STORE：sqlite:PATH、redis://HOST、redis+sentinel://HOST/NAME、redis+cluster://HOST、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",
	"the only namespace that callers reach; without it they reach all of the store, and see app first":                                                              "调用者只能到达这个命名空间；不写时能到达 store 里的全部，先看到 app",
	"address to listen on":                          "监听地址",
	"file with the tokens of callers, one per line": "调用者的令牌文件，每行一个",
	"with --queue: broker of the consumer, or RETRYSAFE_BROKER: amqp://HOST/VHOST, nats://HOST or redis://HOST":             "与 --queue 一起用：消费者的消息代理，或 RETRYSAFE_BROKER：amqp://HOST/VHOST、nats://HOST 或 redis://HOST",
	"show the dead letters of this queue; NATS: STREAM/CONSUMER, Redis: STREAM/GROUP":                                       "显示这个队列的死信；NATS 写 STREAM/CONSUMER，Redis 写 STREAM/GROUP",
	"show the outbox in this database: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE":                      "显示这个数据库里的发件箱：sqlite:PATH、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",
	"show the locks held there: redis://HOST, or a table in postgres://HOST/DATABASE, mysql://HOST/DATABASE or sqlite:PATH": "显示这里持有的锁：redis://HOST，或者 postgres://HOST/DATABASE、mysql://HOST/DATABASE 或 sqlite:PATH 里的一个表",
	"how long entries of the audit log are kept":                                                                            "审计日志的条目保留多久",
	"what the caller may do, comma-separated: view, reveal, resolve":                                                        "调用者可以做什么，用逗号分隔：view、reveal、resolve",

	// dlq
	"the broker: amqp://HOST/VHOST, nats://HOST or redis://HOST":                                            "消息代理：amqp://HOST/VHOST、nats://HOST 或 redis://HOST",
	"queue of the consumer; NATS: STREAM/CONSUMER, Redis: STREAM/GROUP":                                     "消费者的队列；NATS 写 STREAM/CONSUMER，Redis 写 STREAM/GROUP",
	`store of the consumer's records, or RETRYSAFE_STORE; "none" if its handlers keep no records`:           `消费者的记录所在的存储，或 RETRYSAFE_STORE；处理函数不保存记录时写 "none"`,
	"only dead letters with this reason: tries poison refused no-id too-large in-doubt mismatch unreadable": "仅限这个原因的死信：tries poison refused no-id too-large in-doubt mismatch unreadable",
	"only dead letters of this consumer":                                                                    "仅限这个消费者的死信",
	"at most this many dead letters; 0 is all":                                                              "最多列出多少条死信；0 表示全部",
	"print one JSON object per line":                                                                        "每行打印一个 JSON 对象",
	"also show id, headers, last error and body":                                                            "也显示 ID、头、最后的错误和消息体",
	"why, for the audit log; required with --reveal, unless --store is none":                                "理由，写入审计日志；有 --reveal 时必须写，--store none 时除外",

	// dlqredrive
	"all dead letters that --why and --consumer select":                                                          "--why 和 --consumer 选中的全部死信",
	"also messages in doubt or without a record: an operator has verified that nothing was done":                 "也重投存疑或没有记录的消息：运维人员已经确认什么也没有做",
	"namespace of the consumer's records; required on Redis, PostgreSQL and MySQL, otherwise the default is app": "消费者的记录所在的命名空间；在 Redis、PostgreSQL 和 MySQL 上必须写，其他默认 app",
	"namespace of the consumer's records, if the first message has no record that says it":                       "消费者的记录所在的命名空间，用于第一条消息没有记录可以说明它的情况",
	"why, for the audit log; required unless --store is none":                                                    "理由，写入审计日志；必须写，--store none 时除外",
	"time between two passes": "两轮之间的时间",
	"redrive a message that has been a dead letter for at least this time": "消息成为死信多久之后才重投",
	"redrive a message at most this many times":                            "每条消息最多重投多少次",
	"redrive at most this many messages in one pass":                       "每轮最多重投多少条消息",

	// outbox
	"database with the outbox: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE":          "发件箱所在的数据库：sqlite:PATH、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",
	"also show ids, keys and the last errors":                                                           "也显示 ID、键和最后的错误",
	"only dead messages of this topic":                                                                  "仅限这个主题的死信",
	"at most this many dead messages; 0 is all":                                                         "最多列出多少条死信；0 表示全部",
	"print one JSON object per line: the counts, then each dead message":                                "每行打印一个 JSON 对象：先是统计，然后是每条死信",
	"all dead messages that --topic selects":                                                            "--topic 选中的全部死信",
	"with --all: only dead messages of this topic":                                                      "与 --all 一起用：仅限这个主题的死信",
	`store with the audit log, or RETRYSAFE_STORE; "none" if there is no audit log`:                     `审计日志所在的存储，或 RETRYSAFE_STORE；没有审计日志时写 "none"`,
	"namespace of the audit log; required on Redis, PostgreSQL and MySQL, otherwise the default is app": "审计日志的命名空间；在 Redis、PostgreSQL 和 MySQL 上必须写，其他默认 app",

	// gateway
	"configuration file in YAML; docs/gateway.md has its options":                                                                                                     "YAML 配置文件；选项见 docs/gateway.md",
	"check the configuration and its files, and exit; =store: connect to the store too, and leave nothing there":                                                      "检查配置和它引用的文件，然后退出；=store：还连接存储，但不在那里留下任何东西",
	"ask the running gateway of this configuration whether it is healthy, and exit: 0 if it is, else 1":                                                               "询问使用这份配置、正在运行的网关是否健康，然后退出：健康是 0，否则是 1",
	"address of the service, for example http://127.0.0.1:9000; can be repeated":                                                                                      "服务的地址，例如 http://127.0.0.1:9000；可以重复",
	"where records are kept: memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE": "记录保存在哪里：memory:、sqlite:PATH、redis://HOST、redis+sentinel://HOST/NAME、redis+cluster://HOST、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",
	"name of this service in the store; required on Redis, PostgreSQL and MySQL, otherwise the default is app":                                                        "这个服务在存储里的名字；在 Redis、PostgreSQL 和 MySQL 上必须写，其他默认 app",
	"address of the admin server: /healthz, /readyz, /metrics; none by default":                                                                                       "admin 服务的地址：/healthz、/readyz、/metrics；默认没有",
	"log one JSON line for each request: off, stdout, or a file":                                                                                                      "每个请求记一行 JSON 日志：off、stdout 或一个文件",
	"lease of an attempt; heartbeats extend it":                                                                                                                       "一次执行的租约；由心跳延长",
	"how long a stored answer is replayed":                                                                                                                            "保存的响应可以重放多久",
	`how a duplicate is answered while the first request runs: reject, or "wait 5s"`:                                                                                  `第一个请求执行期间怎样回答重复请求：reject，或 "wait 5s"`,
	"what to do if an earlier request may have taken effect: refuse or reexecute":                                                                                     "之前的请求可能已经生效时怎么办：refuse 或 reexecute",

	// ids
	"store of worker numbers and ranges: memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE": "机器号和号段所在的存储：memory:、sqlite:PATH、redis://HOST、redis+sentinel://HOST/NAME、redis+cluster://HOST、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",
	"bit layout of snowflake ids: twitter, fast, uid-generator or sonyflake; it must be the same for all servers of a namespace, for ever":                                        "snowflake ID 的位布局：twitter、fast、uid-generator 或 sonyflake；同一命名空间的所有服务端必须相同，并且永远不能改",
	"worker numbers, and so snowflake ids, are unique in a namespace":                                                                                                             "机器号在一个命名空间里唯一，snowflake ID 也因此唯一",
	"table of tags in a SQL store: default retrysafe_ids; leaf_alloc is the table of Leaf":                                                                                        "SQL 存储里 tag 的表：默认 retrysafe_ids；leaf_alloc 是 Leaf 的表",
	"NAME, NAME:STEP or NAME:STEP:FIRST: create the tag if it does not exist, with ranges of STEP (1000) ids from FIRST (1); can be repeated":                                     "NAME、NAME:STEP 或 NAME:STEP:FIRST：tag 不存在时创建它，每个号段 STEP（1000）个 ID，从 FIRST（1）开始；可以重复",
	"how many Redis replicas must confirm each range; -1: all":                                                                                                                    "每个号段必须由几个 Redis 副本确认；-1 是全部",
	"accept a store that can lose confirmed writes: ids can repeat after a crash or a failover":                                                                                   "接受可能丢失已确认写入的存储：崩溃或故障转移之后，ID 可能重复",
	"grace period for requests in flight at shutdown":                                                                                                                             "停止时留给进行中的请求的时间",

	// keys
	"only this tenant, as show --reveal prints it": "只看这个租户，如 show --reveal 所显示",
	"only this caller: NAME, basic:NAME, jwt:ISSUER|SUBJECT, header:VALUE, or a credential in a file: bearer:@FILE, credential:@FILE, cookie:@FILE, secret:@FILE, certificate:@FILE; @- is standard input": "只看这个调用者：NAME、basic:NAME、jwt:ISSUER|SUBJECT、header:VALUE，或者文件里的凭证：bearer:@FILE、credential:@FILE、cookie:@FILE、secret:@FILE、certificate:@FILE；@- 是标准输入",
	`only records whose key was first used at this time or later: 2006-01-02, "2006-01-02 15:04", or a time ago such as 90m`:                                                                               `只看键在这个时间或之后第一次使用的记录：2006-01-02、"2006-01-02 15:04"，或者多久以前，例如 90m`,
	"only records whose key was first used before this time":                                                                       "只看键在这个时间之前第一次使用的记录",
	"only records whose stored answer has this Location or Content-Location, for example /payments/17; needs --reason":             "只看保存的响应带有这个 Location 或 Content-Location 的记录，例如 /payments/17；需要 --reason",
	"only records whose stored answer has this text, such as the id of a payment; needs --reason":                                  "只看保存的响应里有这段文字的记录，例如付款的 ID；需要 --reason",
	"with --answer-location or --answer-text: stop after so many answers":                                                          "与 --answer-location 或 --answer-text 一起：看过这么多个响应之后停止",
	"why, for the audit log; required with --answer-location and --answer-text":                                                    "原因，写入审计日志；使用 --answer-location 和 --answer-text 时必填",
	"only count what would be removed, and show what would be left":                                                                "只统计会删除什么，并显示会留下什么",
	"why, for the audit log; required without --dry-run":                                                                           "原因，写入审计日志；没有 --dry-run 时必填",
	"the service has no RETRYSAFE_SECRET; needed by resolve, release and show --reveal on Redis, PostgreSQL and MySQL without one": "服务没有 RETRYSAFE_SECRET；在 Redis、PostgreSQL 和 MySQL 上没有它时，resolve、release 和 show --reveal 需要这个命令行选项",
	"only this namespace": "仅限这个命名空间",
	"only this layer; those of retrysafe: gw http rpc mcp mcp-derived nginx fn tx mq callback token sig ids map audit secret mark data-key": "仅限这一层；retrysafe 的层有：gw http rpc mcp mcp-derived nginx fn tx mq callback token sig ids map audit secret mark data-key",
	`only this operation, for example "POST /orders"`:                        `仅限这个操作，例如 "POST /orders"`,
	"only this state: issued in-progress in-doubt completed failed released": "仅限这个状态：issued in-progress in-doubt completed failed released",
	"only records in doubt":                               "仅限存疑的记录",
	"at most this many records; 0 is all":                 "最多列出多少条记录；0 表示全部",
	"with --reveal: print only the answer, byte for byte": "用于 --reveal：只打印响应，逐字节不变",
	"show key, tenant and answer too":                     "也显示键、租户和响应",
	"why, for the audit log; required with --reveal":      "理由，写入审计日志；有 --reveal 时必须写",

	// migrate
	"the store: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE": "存储：sqlite:PATH、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",
	"print the SQL that creates the tables, and exit":                           "打印创建这些表的 SQL，然后退出",

	// quota
	"the tenant":      "租户",
	"one JSON object": "打印一个 JSON 对象",

	// resolve
	"fence of the record, from keys show; if the record has changed since, nothing happens": "记录的栅栏号，由 keys show 显示；如果记录在那之后变了，就什么也不做",
	"also if an attempt has a live lease; that attempt may still act":                       "有一次执行的租约还没过期时也处理；那次执行仍然可能生效",
	"name of the operator, for the audit log":                                               "运维人员的名字，写入审计日志",
	"how this is known, for the audit log; required":                                        "怎么知道的，写入审计日志；必须写",
	"the outcome: done, failed or not-done":                                                 "结果：done、failed 或 not-done",
	"with done: status of the answer":                                                       "用于 done：响应的状态码",
	"with done: Content-Type of the answer":                                                 "用于 done：响应的 Content-Type",
	"with done: Location of the answer":                                                     "用于 done：响应的 Location",
	"with done: file with the body of the answer":                                           "用于 done：响应体所在的文件",
	"with failed: the text that duplicates get":                                             "用于 failed：重复请求得到的文本",

	// resume
	"only this namespace; required with --exec or --post on Redis, PostgreSQL and MySQL": "仅限这个命名空间；在 Redis、PostgreSQL 和 MySQL 上使用 --exec 或 --post 时必须写",
	"only this layer; the default with --exec or --post is fn":                           "仅限这一层；有 --exec 或 --post 时默认 fn",
	"only this tenant (not with --exec or --post)":                                       "仅限这个租户（不能与 --exec 或 --post 一起用）",
	"only this operation":                                                      "仅限这个操作",
	"shell command that finishes a call":                                       "完成一个调用的 shell 命令",
	"URL that finishes a call":                                                 "完成一个调用的 URL",
	"exit after one pass":                                                      "一轮之后退出",
	"time between two passes, plus or minus half":                              "两轮之间的时间，上下浮动一半",
	"start at most this many calls a second":                                   "每秒最多开始多少个调用",
	"run at most this many calls at once":                                      "同时最多运行多少个调用",
	"pause after the first attempt of a call; each further attempt doubles it": "一个调用第一次执行之后的间隔；之后每次加倍",
	"longest pause":                                                            "最长的间隔",
	`leave a call in doubt with the cause "attempts" after this many`:          `执行多少次之后，让调用以原因 "attempts" 继续存疑`,
	"longest run of a call":                                                    "一个调用最长的运行时间",
	"why, for the audit log":                                                   "理由，写入审计日志",

	// seal
	"key file of a sealed store, or RETRYSAFE_SEAL_KEYS with its text; docs/sealed.md": "加密存储的密钥文件，或 RETRYSAFE_SEAL_KEYS，值是文件的文本；见 docs/sealed.md",
	"directory of the tenants' data keys, if they are not in the store":                "存放各租户数据密钥的目录，用于它们不在存储里的情况",

	// sealkeys
	"namespace whose audit log gets the entry; required on Redis, PostgreSQL and MySQL, otherwise the default is app": "哪个命名空间的审计日志记下这个条目；在 Redis、PostgreSQL 和 MySQL 上必须写，其他默认 app",
	"why, for the audit log; required":                            "理由，写入审计日志；必须写",
	"begin of the lost time, as restore check shows it; required": "丢失的时间从何时开始，与 restore check 显示的一致；必须写",
	"its end; required":                                           "它的结束；必须写",
	"the namespace of the service; required on Redis, PostgreSQL and MySQL, otherwise the default is app": "服务的命名空间；在 Redis、PostgreSQL 和 MySQL 上必须写，其他存储的默认值是 app",
	"from now on the service has no RETRYSAFE_SECRET; needed on Redis, PostgreSQL and MySQL without one":  "从现在起服务没有 RETRYSAFE_SECRET；在 Redis、PostgreSQL 和 MySQL 上没有它时，需要这个命令行选项",
	"the namespace of the gateway; app if it has none":                                                    "网关的命名空间；网关没有设置时是 app",
	"the tenant, as keys show --reveal prints it":                                                         "租户，如 keys show --reveal 所显示",

	// demo
	"open no page and exit after the table; the exit code is 1 if a scene fails":            "不打开页面，打印表格之后退出；有场景失败时退出码是 1",
	"open no page, print the scenes as JSON, and exit":                                      "不打开页面，以 JSON 打印各个场景，然后退出",
	"address of the page, on loopback; without this flag, another free port if it is taken": "页面的地址，在环回地址上；没有写这个命令行选项而端口被占用时，换一个空闲的端口",

	"store of the gateways, in place of files: sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE": "网关的存储，代替文件：sqlite:PATH、redis://HOST、redis+sentinel://HOST/NAME、redis+cluster://HOST、postgres://HOST/DATABASE 或 mysql://HOST/DATABASE",

	// shop
	"the shop's tables": "商店的表",
}
