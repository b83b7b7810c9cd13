package cli

// chineseLong translates the paragraphs of long texts. The key is the English paragraph.
var chineseLong = map[string]string{ //nolint:gosec // help, no credentials
	// advise
	`advise runs the program retrysafe-advise with the same arguments, and exits with its code. It looks for the program
beside this one and then in PATH. If there is none, it prints how to install it, and exits with 1.`: `advise 用同样的参数运行程序 retrysafe-advise，并以它的退出码退出。先在本程序所在的目录里找它，
再到 PATH 里找。找不到时，打印安装方法，并以 1 退出。`,

	// bench
	`bench store acquires and completes new keys, and then replays them. An answer has 256 bytes. The records are in their own
namespace, bench-…, and expire after 15 minutes. A store in use gets slower while this runs.`: `bench store 获取并完成新的键，然后重放它们。每个响应 256 字节。记录放在单独的命名空间 bench-… 里，
15 分钟后过期。运行期间，正在使用的存储会变慢。`,

	// capacity
	`capacity estimates how large the records of a service become, how much of a server new keys take, and how much memory
a gateway needs. It connects to nothing. The figures were measured on one machine, which docs/benchmarks.md names: measure
yours with "retrysafe bench store", and plan with a margin. Records that have expired stay until they are swept, a few
minutes later.`: `capacity 估算一个服务的记录会有多大，新键占用服务器多少处理能力，以及网关需要多少内存。它不连接任何服务器。
数据是在一台机器上测得的，docs/benchmarks.md 写明是哪一台：请用 "retrysafe bench store" 测量自己的机器，并留出余量。
过期的记录在几分钟后清理，在那之前仍占空间。`,

	// check
	`check sends a request as clients, networks and crashes repeat it, and verifies the answers and how often the request
took effect. The API can be written in any language.`: `check 像客户端、网络和崩溃那样重复发送一个请求，核对各次响应，并统计请求生效了几次。
API 可以用任何语言写成。`,
	`Every check acts on the API, so only an API on this machine is examined unless --allow names its host. --plan shows what
would be sent. In the URL, the header fields and the body, {{unique}} is a text that is new for each operation and the
same in its duplicates.`: `每个检查项都会真的操作 API，所以只检查本机上的 API，除非用 --allow 指明它的主机。
--plan 显示将要发送什么。URL、头和请求体里的 {{unique}} 在每个操作里换成一个新值，
在同一操作的重复请求里保持不变。`,
	`Exit codes: 0 nothing is broken, 1 something is broken, 2 the API could not be examined, the examination was
interrupted, or no check could be decided.`: `退出码：没有问题是 0，有问题是 1；无法检查这个 API、检查被中断，
或者没有一个检查项能得出结论时是 2。`,

	// console
	`console serves a page for browsers and a JSON API: the records in doubt and their causes, a search, an audit log,
dead letters (--queue), an outbox (--outbox) and locks (--locks). A gateway serves the same on its admin address.`: `console 提供一个浏览器页面和一个 JSON API：存疑的记录及其原因、搜索、审计日志、死信（--queue）、
发件箱（--outbox）和锁（--locks）。网关在它的 admin 地址上提供同样的内容。`,
	`Without --tokens, a caller on this machine can read, and no one can change anything. "retrysafe console token"
makes a token. /api/v1/openapi.json describes the API.`: `没有 --tokens 时，本机上的调用者可以查看，谁也不能修改。"retrysafe console token" 生成令牌。
/api/v1/openapi.json 是这个 API 的描述。`,
	"token prints a new token for its caller, and the line for the file of --tokens, which holds only a digest of it.": "token 打印调用者的新令牌，以及要写进 --tokens 文件的一行，其中只有令牌的摘要。",

	// dlq
	`dlq works on the dead-letter queue of a consumer. An id can be a secret, so a message is shown as a hash of 16
digits, keyed by RETRYSAFE_SECRET. "retrysafe keys" shows the same hash for its record. RETRYSAFE_BROKER can
hold the URL of the broker.`: `dlq 处理一个消费者的死信队列。ID 可能是机密，所以消息显示为 16 位的哈希，它以 RETRYSAFE_SECRET 为密钥。
"retrysafe keys" 对它的记录显示同样的哈希。消息代理的 URL 可以放在 RETRYSAFE_BROKER 里。`,
	`What redrive, discard and run do, and what show --reveal shows, is written to the audit log of the consumer's records.
With --store none there is no audit log.`: `redrive、discard 和 run 所做的，以及 show --reveal 所显示的，都写入消费者的记录所在的审计日志。
--store none 时没有审计日志。`,

	// dlqredrive
	`redrive first reopens the record of a message and then publishes the message. In the other order, the consumer would
drop the message as a duplicate. A message that was interrupted in between is listed as open; redrive it again. A
dead letter whose message was done in the meantime is removed.`: `redrive 先重新打开消息的记录，再发布消息。反过来的话，消费者会把它当成重复消息丢掉。
在两步之间中断的消息列为 open，请再次重投。如果死信的消息这期间已经完成，这条死信就会删除。`,
	`discard deletes messages from the dead-letter queue. Their records stay, so copies that arrive later are acked and not
run. A later copy of a message in doubt becomes a dead letter again: resolve its record with "retrysafe keys resolve".`: `discard 从死信队列删除消息。它们的记录会保留，所以之后到来的副本得到确认，不会执行。
存疑消息之后到来的副本会再次成为死信：请用 "retrysafe keys resolve" 处理它的记录。`,
	`run redrives messages that used up their tries (or those of --why, but never those in doubt) after --after, and each
at most --max-redrives times. Run only one per queue. SIGTERM ends it. With --every 0 it goes through the queue
once. Each message that it redrives has its entries in the audit log.`: `run 重投用完重试次数的消息（或 --why 选中的消息，但绝不重投存疑的）。消息成为死信满 --after 才重投，
每条最多重投 --max-redrives 次。每个队列只运行一个 run。SIGTERM 结束它。--every 0 时只遍历队列一次。它重投的每条消息在审计日志里都有条目。`,

	// outbox
	`outbox works on the outbox in the database of a service. A message that its relay has given up is dead: it holds up
all later messages of its key. A message is named by its place in the order.`: `outbox 处理一个服务的数据库里的发件箱。中继放弃的消息是死信：它挡住同一个键之后的所有消息。
消息用它在顺序里的位置来指明。`,
	"With --store, what redrive and discard do, and what list --reveal shows, is written to the audit log of that store.": "有 --store 时，redrive 和 discard 所做的，以及 list --reveal 所显示的，都写入那个存储的审计日志。",
	`list prints how many messages are not published yet, how many of them were refused and are tried again later, and the
age of the oldest one. Then it lists the dead messages.`: `list 打印还没有发布的消息数、其中被拒绝而稍后再试的消息数，以及最老的一条有多久。然后列出死信。`,
	`redrive lets the relay publish dead messages again, each in its place before the later ones of its key. First mend what
the broker refuses: list --reveal shows its errors.`: `redrive 让中继重新发布死信，每条都在原来的位置，先于同一个键之后的消息。请先修好消息代理拒绝的原因：list --reveal 显示它的错误。`,
	"discard deletes dead messages. They are never published, and the later messages of their keys are.": "discard 删除死信。它们不会再发布，同一个键之后的消息会发布。",

	// dlqshow
	`show shows one dead letter. In its body, characters that are not printable are shown as escapes, such as \x1b: they
could control the terminal. Each line of the body is indented.`: `show 显示一条死信。消息体里不可打印的字符显示为转义，例如 \x1b：它们可能控制终端。消息体的每一行都缩进。`,

	// gateway
	`gateway is a reverse proxy. It sends a POST or PATCH that carries an Idempotency-Key to the service at
most once. Every duplicate gets the first answer. If the outcome of a request is unknown, its duplicates get
409 outcome-unknown and the service gets nothing, unless --on-doubt is reexecute.`: `gateway 是反向代理。带有 Idempotency-Key 的 POST 或 PATCH，它最多向服务发送一次。
每个重复请求都得到第一次的响应。如果请求的结果未知，它的重复请求得到 409 outcome-unknown，
不会发给服务，除非 --on-doubt 是 reexecute。`,
	`SIGHUP: reload the configuration, the certificate and the access log, without losing a request.
SIGTERM: accept no new requests, finish those in flight, and exit.`: `SIGHUP：重新加载配置、证书和访问日志，不丢失任何请求。
SIGTERM：不再接受新请求，完成进行中的请求，然后退出。`,
	`RETRYSAFE_SECRET is the secret of the digests of credentials. Set it to the same value on all gateways of one store.
RETRYSAFE_SEAL_KEYS is the text of a key file; with it, stored answers are encrypted (docs/sealed.md).
OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry turn on the export of spans and metrics.`: `RETRYSAFE_SECRET 是计算凭据摘要的密钥，同一存储的所有网关要用同一个值。RETRYSAFE_SEAL_KEYS 是密钥文件的文本，
设置之后，保存的响应会加密（docs/sealed.md）。OTEL_EXPORTER_OTLP_ENDPOINT 和 OpenTelemetry 的其他变量
打开 span 和指标的导出。`,

	// ids
	"ids serve returns unique ids over HTTP. Several servers can share one store; no id is returned twice.": "ids serve 用 HTTP 返回唯一的 ID。多个服务端可以共用一个存储，同一个 ID 不会返回两次。",
	`GET /api/snowflake/get/KEY   a number of 63 bits that sorts by time, made with a worker number that is leased in the store; KEY can be any text
GET /api/segment/get/TAG     the next number of a tag, from ranges that the store gives; make tags with --tag
GET /api/time                this server's time in milliseconds since 1970
?count=N                     N ids as a JSON array of strings
/healthz, /readyz, /metrics  for operators`: `GET /api/snowflake/get/KEY   按时间排序的 63 位数字，由机器号生成，机器号从存储里租用；KEY 可以是任意文本
GET /api/segment/get/TAG     一个 tag 的下一个数字，取自存储给出的号段；用 --tag 创建 tag
GET /api/time                服务端的时间，1970 年以来的毫秒数
?count=N                     N 个 ID，是 JSON 的字符串数组
/healthz, /readyz, /metrics  供运维使用`,
	`It authenticates no one, so listen where only your programs can connect. SIGTERM: answer the requests in flight, give the worker
number back, and exit.`: `它不做身份认证，所以只在你自己的程序能连接的地址上监听。
SIGTERM：响应进行中的请求，交还机器号，然后退出。`,

	// keys
	"list lists records, without keys, tenants and answers.": "list 列出记录，不显示键、租户和响应。",
	`--answer-location and --answer-text find a record by what its answer says, such as the id of a payment. They read the
stored answers one after the other and print which records have it, nothing of the answers. That is a look at what is
hidden: it needs a --reason, and is written to the audit log of the namespace first.`: `--answer-location 和 --answer-text 按响应的内容查找记录，例如付款的 ID。它们逐个读取保存的响应，
只打印哪些记录有它，不打印响应的任何内容。这是在查看隐藏的内容：需要 --reason，并且先写入命名空间的审计日志。`,

	// keysselect
	`--user names a caller as people know it. The gateway makes its tenant of that in the same way, mostly a digest keyed by
RETRYSAFE_SECRET:`: `--user 用人们所知的名字指明调用者。网关用同样的方法由它得到租户，多数是以 RETRYSAFE_SECRET 为密钥的摘要：`,
	`basic:ann            the user name of Basic authentication
jwt:ISSUER|SUBJECT   the claims iss and sub of a bearer token, verified or not
header:ann           the value of a header of tenant: header:NAME, or any tenant that is not a digest
bearer:@FILE         a bearer token; of a JWT, iss and sub count
credential:@FILE     a whole Authorization header
cookie:@FILE         the value of the cookie of tenant: {cookie: NAME}
secret:@FILE         the value of the header of tenant: {header_secret: NAME}
certificate:@FILE    the certificate of the client, in PEM
ann                  basic:ann or header:ann`: `basic:ann            Basic 认证的用户名
jwt:ISSUER|SUBJECT   bearer 令牌的声明 iss 和 sub，无论是否经过验证
header:ann           tenant: header:NAME 的头的值，或任何不是摘要的租户
bearer:@FILE         bearer 令牌；如果是 JWT，以 iss 和 sub 为准
credential:@FILE     整个 Authorization 头
cookie:@FILE         tenant: {cookie: NAME} 的 cookie 的值
secret:@FILE         tenant: {header_secret: NAME} 的头的值
certificate:@FILE    客户端的证书，PEM 格式
ann                  basic:ann 或 header:ann`,
	`A credential must not stand in the arguments of a process, which others can see: it is read from a file, or from
standard input with @-.`: `凭证不能放在进程的参数里，因为别人能看到参数：它从文件读取，@- 则从标准输入读取。`,

	// keysexport
	`export prints each record of a caller as one line of JSON: key, operation, state, times, and the stored answer or the
input and the steps of a call that is not finished. --tenant names a caller by its tenant.`: `export 把一个调用者的每条记录打印成一行 JSON：键、操作、状态、时间，以及保存的响应，
或者未结束的调用的输入和步骤。--tenant 用租户指明调用者。`,
	`The audit log of the namespace gets an entry first. Records are read one after the other, so a store of any size can
be exported. A sealed answer is printed only with --seal-keys or RETRYSAFE_SEAL_KEYS.`: `先在命名空间的审计日志里写一个条目。记录逐条读取，所以任何大小的存储都能导出。
加密的响应只有给出 --seal-keys 或 RETRYSAFE_SEAL_KEYS 才会打印。`,

	// keysforget
	`forget removes from each finished record of a caller the answer, the digests of the request and of the credential, and
the text of the last error. The record stays until it expires, with the text of its key, so that a duplicate runs
nothing: it gets 409 answer-not-kept. --tenant names a caller by its tenant.`: `forget 从一个调用者的每条已结束的记录里删除响应、请求和凭证的摘要，以及最后一个错误的文字。
记录和它的键的文字保留到过期，所以重复请求不会执行任何东西：它得到 409 answer-not-kept。--tenant 用租户指明调用者。`,
	`First look with --dry-run, which changes nothing. A record that is not finished is left and reported, since its work
would run again: resolve it, or wait, and repeat the command. A record that changes meanwhile is left too. The audit
log of the namespace gets an entry first, with a hash of the caller.`: `先用 --dry-run 查看，它什么也不改。未结束的记录会留下并报告，因为否则它的工作会再次执行：
请处理它或者等待，然后重复这个命令。期间变更的记录也会留下。先在命名空间的审计日志里写一个条目，其中有调用者的哈希。`,
	`With --seal-keys or RETRYSAFE_SEAL_KEYS it also destroys the data key of the caller, as seal forget does, if no record
was left, and neither --operation nor --layer left any out. Copies of the records in backups can then not be opened either.`: `给出 --seal-keys 或 RETRYSAFE_SEAL_KEYS 时，如果没有记录留下，也没有用 --operation 或 --layer 排除记录，它还会像 seal forget 一样销毁调用者的数据密钥。
之后备份里的记录副本也无法打开。`,

	`keys reads the records of a store. A key can be a secret, so it is shown as a hash of 16 digits, keyed by
RETRYSAFE_SECRET. Set that to the value of the gateway. show, release and resolve accept the hash, the key
that the client sent, or the whole text of the record's key. list leaves out the audit log, the
check value of the secret and the marks of the store, unless --layer is audit, secret or mark.`: `keys 读取存储里的记录。键可能是机密，所以显示为 16 位的哈希，它以 RETRYSAFE_SECRET 为密钥；
请设成网关的值。show、release 和 resolve 接受哈希、客户端发送的键，或记录的键的完整文本。
list 不列出审计日志、secret 的校验值和存储的标记，除非 --layer 是 audit、secret 或 mark。`,

	// keysshow
	`show shows one record. With --reveal it also shows the key, the tenant, the last error and the answer. That is written
to the audit log of the record's namespace first. If the log cannot be written, nothing is shown.`: `show 显示一条记录。加上 --reveal 时，也显示键、租户、最后的错误和响应。在显示之前，先写入记录的命名空间的审计日志。
日志写不进去，就什么也不显示。`,
	`In an answer, characters that are not printable are shown as escapes, such as \x1b: they could control the terminal.
Each line of the answer is indented. --raw prints the answer alone, byte for byte, for a file or a pipe.`: `响应里不可打印的字符显示为转义，例如 \x1b：它们可能控制终端。响应的每一行都缩进。
--raw 只打印响应，逐字节不变，用于文件或管道。`,

	// migrate
	`migrate creates or updates the tables of a SQL store. A gateway does this when it starts. If its database user is not
allowed to, the owner of the database runs migrate, or the SQL of --print, before the first gateway of a new version
starts. --print connects to nothing and changes nothing.`: `migrate 创建或更新 SQL 存储的表。网关启动时会自己做这件事。如果它的数据库用户没有权限，
就由数据库的所有者在新版本的第一个网关启动之前运行 migrate，或执行 --print 打印的 SQL。
--print 不连接数据库，也不做任何改动。`,

	// quota
	`quota shows what the store has counted for a tenant: keys within their time, bytes, and how full the burst of each rate is.
Compare it with limits in the configuration of the gateway or the policy of the service. Nothing is counted by looking.`: `quota 显示存储为一个租户统计的用量：在计数时间内的键、字节数，以及每个限流的突发额度用了多少。
请与网关配置里的 limits 或服务的 policy 比较。查看本身不计数。`,
	`--namespace is that of the service, by default app. Without --tenant and --user it is the tenant of callers without a
name.`: `--namespace 是服务的命名空间，默认 app。没有 --tenant 和 --user 时，是没有名字的调用者的租户。`,
	`A gateway that does not verify its callers counts a caller with an Authorization header by the whole header: give
credential:@FILE.`: `网关不验证调用者时，对带 Authorization 头的调用者按整个头计数：请给出 credential:@FILE。`,

	// resolve
	`release lets the next request with the key run. Use it only if the first request had no effect and its process is
dead: a process that is only slow can still act, unless the resource checks the fence.`: `release 让这个键的下一个请求执行。只有第一个请求没有生效、并且它的进程已经退出时才能用：
如果进程只是慢，它仍然可能生效，除非资源会检查栅栏号。`,
	"resolve stores the outcome that you found.": "resolve 保存你查到的结果。",
	`done      duplicates get the answer of --status, --content-type, --location and --body. Without --status they
          get 409 answer-not-kept: the request was done, and its answer is not known. A status that means that
          nothing was done, such as 401, is refused, and so is a body of a 204 or 304.
failed    duplicates get 409 resolved-failed with the text of --failure.
not-done  the next request with the key runs, as after "keys release".`: `done      重复请求得到由 --status、--content-type、--location 和 --body 组成的响应。没有 --status 时
          得到 409 answer-not-kept：请求已经完成，但它的响应未知。表示什么也没做的状态码（例如 401）
          会遭到拒绝，204 或 304 的响应体也一样。
failed    重复请求得到 409 resolved-failed 和 --failure 的文本。
not-done  这个键的下一个请求会执行，与 "keys release" 之后一样。`,

	// resume
	`resume lists abandoned calls: those in doubt, and those released with some of their steps done. With --operation and
--exec or --post, a program finishes those that keep their input (Operation.Resumable) and may run again (Reexecute):`: `resume 列出被遗弃的调用：存疑的，以及做完几步之后释放的。有 --operation 和 --exec 或 --post 时，
由一个程序完成其中保存了输入（Operation.Resumable）并且可以再次执行（Reexecute）的调用：`,
	`  --exec  runs a shell command. Its standard input is the input of the call, its standard output the answer. Exit code
          0 means done, 75 means that nothing was done, and any other leaves the call in doubt. Its environment
          has RETRYSAFE_KEY, RETRYSAFE_TENANT, RETRYSAFE_OPERATION, RETRYSAFE_ATTEMPT, RETRYSAFE_FENCE, and
          RETRYSAFE_STEPS: the names of the finished steps, in JSON.
  --post  sends the input to a URL, with the headers Idempotency-Key, Idempotency-Attempt, Idempotency-Fence, Retrysafe-Tenant,
          Retrysafe-Operation and Retrysafe-Steps. 2xx means done, and the body is the answer. 401, 403, 407,
          408, 421, 425, 426, 428, 429, 431, the header "Idempotency-Outcome: not-executed" and a refused connection mean
          that nothing was done. Anything else leaves the call in doubt.`: `  --exec  运行一条 shell 命令。它的标准输入是调用的输入，标准输出是响应。退出码 0 表示已完成，75 表示什么也没做，
          其他退出码让调用继续存疑。环境变量有 RETRYSAFE_KEY、RETRYSAFE_TENANT、RETRYSAFE_OPERATION、
          RETRYSAFE_ATTEMPT、RETRYSAFE_FENCE 和 RETRYSAFE_STEPS：已完成步骤的名字，JSON 格式。
  --post  把输入发送到一个 URL，头有 Idempotency-Key、Idempotency-Attempt、Idempotency-Fence、Retrysafe-Tenant、
          Retrysafe-Operation 和 Retrysafe-Steps。2xx 表示已完成，响应体就是响应。401、403、407、
          408、421、425、426、428、429、431、头 "Idempotency-Outcome: not-executed" 和连接被拒绝表示什么也没做。
          其他情况让调用继续存疑。`,
	`An answer is stored as JSON if it is JSON, otherwise byte for byte. Calls in doubt under Refuse are listed, never run:
use "keys resolve". An interrupt lets running calls finish and then exits.`: `响应是 JSON 时按 JSON 保存，否则逐字节保存。Refuse 下存疑的调用只列出，绝不运行：请用 "keys resolve"。
收到中断时，等正在运行的调用完成，然后退出。`,
	`Each call that the program gets, and each that is given up, has its entries in the audit log of the namespace. If an
entry cannot be written, the call does not run. The list changes nothing and has no entries.`: `交给程序的每个调用、放弃的每个调用，在命名空间的审计日志里都有条目。条目写不进去，调用就不运行。
列表什么也不改，没有条目。`,

	// root
	`retrysafe makes requests safe to repeat. A double click, a client's retry, a replayed request
takes effect once, and every duplicate gets the first answer.`: `retrysafe 让请求可以安全地重复。点了两下、客户端重试、请求被重放，都只生效一次，
每个重复请求都得到第一次的响应。`,

	// seal
	`seal manages the keys that encrypt answers. A key file has the master keys. Each tenant has a data key, which is stored
encrypted by the current master key, in the store or in a directory.`: `seal 管理加密响应的密钥。密钥文件里是主密钥。每个租户有一个数据密钥，用当前主密钥加密之后，
保存在存储或一个目录里。`,

	// sealkeys
	`rewrap encrypts all data keys with the current master key. After it succeeds, and once all processes have the same
current key, older master keys can be removed. The audit log of --namespace gets an entry first.`: `rewrap 用当前主密钥加密所有数据密钥。它成功之后，等所有进程的当前主密钥都相同了，就可以删除旧的主密钥。
在此之前，先写入 --namespace 的审计日志。`,
	`forget destroys a tenant's data key. Its stored answers can no longer be decrypted; duplicates of its requests still run
nothing. Processes keep data keys in memory for at most seal.cache, 5 minutes by default.`: `forget 销毁一个租户的数据密钥。它保存的响应再也无法解密；它的请求的重复请求仍然什么也不执行。
进程在内存里保留数据密钥的时间最长是 seal.cache，默认 5 分钟。`,
	`The audit log of the namespace gets an entry first, with a hash of the tenant. The log has a data key of its own, so it
stays readable.`: `在销毁之前，先写入这个命名空间的审计日志，条目里是租户的哈希。审计日志有自己的数据密钥，所以仍然可读。`,

	// restore
	`restore works on the marks that gateways leave in their store every few seconds. From them a gateway that runs learns that
the store went back to an older state, for example because a backup was restored. It refuses new keys then, since they
may have run before.`: `restore 处理网关每隔几秒在存储里留下的标记。正在运行的网关由它们得知，存储回到了较早的状态，例如恢复了一份备份。
这时它拒绝新的键，因为它们可能已经执行过。`,
	`check shows the marks of the namespace, and writes nothing. It exits with 0 if the store did not go back, with 1 if it
went back and no operator has accepted that, or if the store does not answer, and with 2 for a wrong call.`: `check 显示命名空间的标记，什么也不写。存储没有回退，退出码是 0；存储回退而运维人员还没有接受，或者存储没有响应，退出码是 1；
调用有误，退出码是 2。`,
	`accept ends the refusal of new keys. What the store has forgotten runs again when its clients repeat it, so first find
out what was done in that time, or wait until no client repeats it any more. The flags name the time, as restore check
shows it. If another one is lost by now, nothing is changed. Gateways that run notice it within seconds. The audit log
of the namespace gets an entry first.`: `accept 结束对新的键的拒绝。存储忘掉的请求，客户端重试时会再执行一次，所以请先查清那段时间里做了什么，或者等到不再有客户端重试。
命令行选项写明这段时间，与 restore check 显示的一致。如果这时丢失的是另一段时间，什么也不改变。正在运行的网关在几秒之内得知。
在此之前，先写入这个命名空间的审计日志。`,
	// secret
	`secret works on the check value that a gateway keeps in its store, one for each namespace. From it every gateway and
command learns whether its RETRYSAFE_SECRET is the one that the store was used with. The secret itself is not stored.`: `secret 处理网关保存在存储里的校验值，每个命名空间一个。每个网关和命令由它得知，自己的 RETRYSAFE_SECRET
是不是这个存储一直在用的那一个。secret 本身不保存。`,
	`check compares RETRYSAFE_SECRET with the check value of the namespace, and writes nothing. It exits with 0 if they
belong together or if there is no check value yet, with 1 if the namespace was used with another secret or if the
store does not answer, and with 2 for a wrong call.`: `check 把 RETRYSAFE_SECRET 与命名空间的校验值比较，什么也不写。两者相符，或者还没有校验值，退出码是 0；
命名空间用的是另一个 secret，或者存储没有响应，退出码是 1；调用有误，退出码是 2。`,
	`replace makes RETRYSAFE_SECRET the secret of the namespace. Callers that are known by a credential become new ones: a
retry of a request that was made before runs again. So replace a secret only if that does no harm, for example when no
client retries any more what was sent before, or if the secret is known to others.`: `replace 把 RETRYSAFE_SECRET 设为命名空间的 secret。由凭据认出的调用者都变成新的：之前的请求，重试时会再执行一次。
所以只在这样做没有害处时（例如已经没有客户端再重试之前的请求），或 secret 已被他人知道时，才更换它。`,
	`First stop all gateways and services of the namespace: those that run keep the old secret and do not notice. Then
replace it, and start them with the new one. The audit log of the namespace gets an entry first.`: `请先停止这个命名空间的所有网关和服务：仍在运行的会继续用旧的 secret，察觉不到更换。然后更换，
再用新的 secret 启动它们。在更换之前，先写入这个命名空间的审计日志。`,

	// demo
	`demo starts a small shop and a gateway on loopback, and sends real requests: each scene first straight to the shop,
then protected. Until Ctrl-C, a page in the browser lets you send payments and kill the gateway. Its files are in a
temporary directory, which it removes. With --store the gateways keep their records in your own store. Those expire
within an hour. Redis then removes them; in a SQLite file they stay until the next sweep.`: `demo 在环回地址上启动一个小商店和一个网关，并发送真实的请求：每个场景先直接发给商店，再经过保护。
在按 Ctrl-C 之前，可以在浏览器的页面里发送付款、杀掉网关。它的文件在一个临时目录里，结束时删除。
有 --store 时，网关把记录保存在你自己的存储里。这些记录一小时之内过期，之后 Redis 会删除它们；
SQLite 文件里的要等下一次清理。`,
}
