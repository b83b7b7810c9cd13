// The texts in Chinese, besides those of zh-causes.js: key|text. {name} is a value. en.js has the same keys.
export default `
nav.doubts|存疑
nav.search|搜索
nav.traffic|流量
nav.messages|死信
nav.locks|锁
nav.quotas|配额
nav.workers|ID 机器号
nav.audit|审计日志
nav.record|记录
views|页面
menu|菜单
count|等待人工处理：{n}
count.unknown|数量未知
skip|跳到正文
again|重试
loading|正在加载……
waiting|正在等待响应……
reading|正在读取记录
reload.lose|重新加载会丢失你在这里填写的内容。
retries|页面每五秒重试一次。
close|关闭
more|更多
stop|停止
any|不限
all|全部
empty|（空）
comma|、
quick|按哈希、键、调用者或操作名搜索
quick.hint|搜索  /
stale|下面显示的是 {at} 的内容。
keys|快捷键
key.search|搜索
key.move|下一行、上一行
key.open|打开这一行
key.back|离开输入框或对话框；从记录返回
key.resolve|跳到处理表单
key.reload|重新加载
who|：{roles}
who.loopback|本机
who.none|输入令牌
token|令牌
token.title|你的身份
token.you|你是 {name}。你在这里的权限：
token.none|服务器不知道你是谁。请输入发给你的控制台令牌。
token.hint|以 rsadmin_ 开头。只保存在当前标签页，关闭标签页后即失效。
token.use|使用这个令牌
token.forget|清除令牌
role.view|查看
role.view.what|查看记录、死信、锁和配额，但看不到键、租户和响应。
role.reveal|查看隐藏内容
role.reveal.what|查看键、租户、响应、错误和锁的名字，须填写理由。
role.resolve|处理
role.resolve.what|处理存疑的记录，重投或丢弃消息，须填写理由。
role.missing|你的令牌没有这个角色，请找令牌的管理员。
me.no-audit|这个服务器没有审计日志，因此在这里不能修改任何内容，也不能查看隐藏内容。
me.lacks|你没有这个权限：需要“{role}”角色。请在页面顶部换一个有此角色的令牌。
reason|理由
reason.hint|写给以后查看审计日志的人。
doubts.lead|这些操作可能已经生效，但结果未知。在有人查清之前不会再次执行。
doubts.none|✓ 没有存疑的记录。
doubts.counts|统计
doubts.at-least|至少 {n}
doubts.oldest|条存疑，最早的一条已有 {span}
doubts.changed|现在有 {n} 条存疑，下面显示的内容较旧。
doubts.again|重新加载
doubts.list|全部存疑记录
by-cause|按原因
by-age|按时间
under|{span}以内
over|超过{span}
do-now|现在该做：
changed-ago|{span}前变更
doubt-for|已存疑 {span}
attempt-n|第 {n} 次执行
no-operation|（无操作名）
list.scans|存储没有这个列表的索引，需要读取每一条记录：目前已读 {n} 条。
list.unreadable|这个版本无法读取的记录：{n} 条。
list.answers|已搜索的保存的响应：{n} 个。
list.sealed|响应已加密而这个服务器没有密钥，所以没有搜索：{n} 个。
list.going|已显示 {n} 条，正在读取……
list.stopped|已显示 {n} 条，尚未读完就停止了。
list.more|已显示 {n} 条，可能还有更多。
list.all|共 {n} 条，已全部显示。
list.none|没有记录。
search.hash|按哈希
search.hash.hint|16 位十六进制，与日志和列表中的相同。搜索会逐条读取记录。
search.hash.go|搜索
search.key|按完整的键
search.key.hint|知道操作名时使用：立即找到，不读取其他记录。键不会写进任何日志。
search.key.go|查找
search.list|查找请求
search.list.hint|“存疑”和“执行中”有索引，其他状态需要逐条读取记录。
search.list.go|搜索
search.id|键
search.id.hint|请求的 Idempotency-Key，通常是订单号，例如 order-17。
search.operation.hint|例如 POST /payments。和这里的每一项一样，可以为空。
search.more|更多条件……
search.tenant.hint|它放在请求正文里发送，不会出现在地址和日志里。
search.again|搜索的内容不在地址里。请重新填写表单。
searched|查找条件：
search.user.hint|谁发送的，例如 ann。其他写法：bearer:TOKEN、cookie:VALUE，或者 jwt: 后接 iss、竖线和 sub。
search.time.hint|键第一次使用的时间，按这个浏览器的时区。
search.answer|按响应的内容……
search.location|响应的 Location
search.location.hint|例如 /payments/17。只显示哪些记录有它，不显示响应的任何内容。
search.text|响应里的文字
search.text.hint|例如付款的 ID，至少 4 个字符。
search.read|已读取 {n} 条记录……
search.found|读取 {n} 条记录后找到。
search.none|{n} 条记录中没有这个哈希。记录可能已过期、属于其他命名空间，或者这个服务器的 secret 与服务不同。
search.stopped|已停止，读取了 {n} 条记录。
found|结果
hash|哈希
operation|操作
id|键（ID）
tenant|租户
user|调用者
layer|层
namespace|命名空间
state|状态
older|至少多久没有变更（秒）
since|从
until|早于
state.in-doubt|存疑
state.in-progress|执行中
state.completed|已完成
state.failed|已失败
state.released|已释放
state.issued|已签发
state.none|无
state.gone|已过期
state.unknown|未知
state.open|已重新打开
layer.gw|网关
layer.http|HTTP 处理函数
layer.fn|函数
layer.tx|事务
layer.mq|消息
layer.rpc|RPC
layer.token|一次性令牌
layer.ids|ID 机器号
layer.nginx|nginx
explain|该怎么办
what|这是什么？
why|为什么？
do|现在该做什么？
also|注意
also.earlier|更早的执行也可能已经生效：请逐一核实。
what.in-doubt|操作已经开始，可能已经生效，但结果未知。
what.in-progress|有一次执行持有这条记录，正在进行。重复请求会等待，或得知正在执行。
what.completed|操作已经生效。重复请求得到它的响应。
what.failed|操作最终拒绝了。重复请求得到同样的拒绝。
what.released|确定什么都没有发生。下一次调用会执行。
what.issued|服务器签发了这个令牌，尚未使用。
what.refuse|在你处理之前，重复请求都会被拒绝。
what.reexecute|它的策略是 reexecute：下一次调用会再次执行。
do.reexecute|什么都不用做。只有在不允许再次执行时才需要处理。
known|已知信息
policy|存疑策略
policy.refuse|refuse：最多一次
policy.reexecute|reexecute：至少一次
attempt|执行次数
fence|栅栏号
lease|租约
lease.left|还剩{span}
lease.none|无：没有持有者
lease.ended|租约已结束
created|创建
updated|变更
expires|过期
expires.never|处理之前不过期
timeline|历次执行
timeline.cut|在这些之前还有更早的执行。
timeline.may|可能已经生效
steps|步骤
step.done|已完成
step.open|已开始，是否生效未知
input-kept|输入已保存：worker 可以把它执行完。
answer|响应
answer.kept|重复请求得到这个响应。
answer.not-kept|响应没有保存：重复请求只能得知结果。
status|状态码
codec|编码
size|大小
bytes|{n} 字节
hidden|隐藏内容
hidden.what|键、租户、响应和最后的错误属于服务的客户。
reveal|显示
reveal.hint|审计日志会记下你看过，以及理由。
last-error|最后的错误
header|头
body|响应体
binary|（不是文本）
resolve|处理
resolve.go|提交处理
resolve.jump|处理……
resolve.fence|你处理的是栅栏号为下列值的记录：
resolve.fence.why|如果它已经改变，什么都不会发生。
resolve.found|你查清了什么？
resolve.reason|你是怎么知道的？例如：银行的列表里有付款 4711。
resolve.live|有一次执行持有这条记录，仍可能生效。仍要处理……
resolve.no-answer|这条记录不属于 HTTP 请求，不能在这里给出响应；程序可以用 Engine.Resolve 给出。
outcome.answer|已完成，并且知道响应
outcome.answer.hint|重复请求得到你给出的响应。
outcome.done|已完成
outcome.done.hint|重复请求得知已经完成，但没有响应。
outcome.failed|最终失败
outcome.failed.hint|没有生效，今后也不会执行：重复请求得到拒绝。
outcome.not-done|未执行
outcome.not-done.hint|下一次调用会执行。只有完全确定时才选它，否则可能生效两次。
force|持有者确定已经退出
force.hint|否则它仍可能生效，与你给出的结果不一致。
content-type|Content-Type
location|Location
location.hint|通常是新建资源的地址，可以为空。
body.hint|与第一个调用者本该得到的逐字节相同。
failure|告知重复请求的内容
failure.hint|例如：银行卡被拒绝。
resolved|✓ 已处理
resolved.answer|从现在起，重复请求得到你给出的响应。
resolved.done|从现在起，重复请求得知已经完成。
resolved.failed|从现在起，重复请求得到拒绝。
resolved.not-done|下一次调用会执行。
resolved.next|全部存疑记录
see-audit|审计日志
changed.look|重新查看
traffic.lead|这个网关的请求。页面每五秒刷新一次。
traffic.none|这个服务器不是网关，没有流量可以显示。
traffic.hour|最近一小时，按分钟
traffic.soon|启动十秒后才有数据。
chart|一分钟内最多 {n} 个请求，在 {at}。{from} 至 {to}。
chart.unit|每分钟请求数
chart.time|时间，按这个浏览器的时钟。
chart.table|以表格显示
chart.newest|每分钟请求数，最新的在前
chart.minute|这一分钟起
routes|路由（自启动以来）
routes.none|还没有请求。
per-second|每秒 {n} 个
kind.done|已执行或重放
kind.refused|被拒绝或未执行
kind.doubt|存疑
traffic.executed|已执行
traffic.replayed|重放
traffic.in-progress|执行中
traffic.in-doubt|存疑操作的重复请求
traffic.doubt|新的存疑
traffic.late|迟到
traffic.released|已释放
traffic.unavailable|存储不可用
traffic.mismatch|内容不同
traffic.duplicate|重复
traffic.refused|被拒绝
traffic.issued|签发令牌
traffic.not-issued|无效令牌
traffic.too-many-keys|键过多
traffic.unguarded|未受保护
messages.lead|已放弃投递的消息。“重投”会再次发送，“丢弃”会永久删除。
messages.none|这里没有配置发件箱或死信队列。见 retrysafe console 的 --outbox 和 --queue。
outbox|发件箱
outbox.pending|待发布
outbox.waiting|其中稍后重试
outbox.dead|死信
outbox.oldest|最早的待发布消息：{span}
outbox.away|这个发件箱的数据库没有响应。
deadletters|死信队列
letters.none|✓ 没有死信。
letters.how|选择消息，然后打开列表下面的“重投”或“丢弃”。
letters.reveal|显示 ID、错误和消息体……
letters.choose|没有选择消息。请在列表中选择消息，或在上面选择一条规则。
letters.cut|已显示前 {n} 条，可能还有更多。
which|哪些消息？
which.chosen|在列表中选中的：{n} 条
which.all|全部
which.rule|{label}：{n} 条
which.counting|正在统计……
which.more|只统计了前 {n} 条。先处理这些，然后再统计。
which.until|统计之后才放弃的消息不受影响。
which.wrong|请输入数字 {n}。
letters.not-done|也包括存疑的
letters.not-done.hint|只有查清它们没有执行时才选：它们会再次执行。
letter.tries|尝试 {n} 次
letter.redrives|重投 {n} 次
letter.died|放弃于
letter.record|记录：{state}
letter.see-record|查看它的记录
letter.why.tries|次数用完
letter.why.poison|毒消息
letter.why.refused|被拒绝
letter.why.no-id|没有 ID
letter.why.too-large|过大
letter.why.in-doubt|存疑
letter.why.mismatch|内容不同
letter.why.unreadable|无法读取
redrive|重投……（已选 {n} 条）
redrive.go|重投
redrive.what|再次发送所选消息。请先解决导致失败的问题。
redrive.confirm|将再次发送 {n} 条消息。请输入这个数字以确认。
discard|丢弃……（已选 {n} 条）
discard.go|永久丢弃
discard.what|删除所选消息，无法恢复。
discard.confirm|将永久删除 {n} 条消息。请输入这个数字以确认。
did.redrive|✓ 已重投 {n} 条。
did.discard|✓ 已丢弃 {n} 条。
did.gone|因早已执行而移除：{n} 条。
did.more|还有更多这样的消息。
did.failed|留在原处：{n} 条。
locks.lead|现在被持有的锁。这里不能强行收回锁：持有者可能仍在执行，并且不会知道。租约结束后锁就空闲，除非持有者续约。
locks.off|这个服务器没有配置锁的后端。见 retrysafe console 的 --locks。
locks.of|锁的后端
locks.none|✓ 没有被持有的锁。
locks.since|持有自
locks.waiting|正在等待的客户端：{n} 个
locks.all|被持有的锁：{n} 个。
locks.more|已显示 {n} 个，还有更多。
quotas.lead|一个租户用了多少限额。请输入完整的租户名。它放在请求正文里发送，不会出现在地址和日志里。
quota|租户的用量
quota.go|查看
quota.tenant.hint|与服务对调用者的命名相同，可以为空。
quota.user.hint|例如 basic:ann 或 header:ann，代替租户。网关不验证调用者时按整个头计数：credential:Basic …
quota.uses|已使用
quota.keys|计入的键
quota.bytes|保存的响应
quota.frees|第一个键不再计入
quota.none|没有计入的键
quota.rate|速率：每秒 {n} 个
quota.burst|突发额度已用 {n} 个
quota.idle|没有新键时，{span}后全部空闲
quota.no-rate|最近没有用到速率限制：突发额度全部空闲。
quota.limits|限额本身在服务的配置里：live、bytes，以及每个速率的 burst。
workers.lead|每个 ID 都包含机器号。两个进程绝不能同时持有同一个机器号，由租约保证。
workers.none|没有进程持有机器号。
worker|机器号 {n}
worker.free|没有持有者
audit.lead|每次修改和每次查看隐藏内容，最新的在前。日期为 UTC。
audit.none|这一天没有记录。
audit.no-reason|没有填写理由。
origin|姓名来源：{how}
audit.unreadable.not-sealed|这个条目写入时没有加密，而这个服务只读取加密的内容。
audit.unreadable.sealed|这个条目是加密的，而这个服务没有它的密钥。
audit.unreadable.damaged|这个条目已损坏。
day|日期
day.before|← 前一天
day.after|后一天 →
action.resolve|处理了
action.reveal|查看了隐藏内容
action.redrive|重投了
action.discard|丢弃了
action.resume|恢复了
action.forget|遗忘了
action.rewrap|重新封装了
action.replace-secret|更换了密钥
result.done|已完成
result.begun|没有结果
result.begun.hint|已经开始，但没有写入结果：可能已完成，也可能没有。
problem.offline|服务器没有响应。
problem.offline.do|它可能正在重启，或者你的网络断开了。没有丢失任何东西。
problem.unavailable|存储没有响应。
problem.unavailable.do|在此期间，使用它的服务拒绝新的操作，不会有任何操作执行两次。错误在服务器的日志里。
problem.unauthenticated|服务器不知道你是谁。
problem.unauthenticated.do|请输入令牌。如果已经输入，它有误或已被更换。
problem.forbidden|你没有这个权限。
problem.forbidden.do|你的令牌没有这个角色，或者已被取消。什么都没有做。请找令牌的管理员。
problem.not-found|没有这条记录。
problem.not-found.do|它可能已过期，或者链接来自 secret 不同的服务器。请搜索，或重新列出记录。
problem.changed|你查看之后，记录已经改变。什么都没有做。
problem.changed.do|别人处理了它，或者开始了另一次执行。请先看清改变了什么。
problem.in-progress|有一次执行持有这条记录，仍可能生效。什么都没有做。
problem.in-progress.do|请等到它的租约结束。
problem.completed|记录已完成：它有了响应，响应永远不会改变。
problem.completed.do|也许别人已经处理。审计日志里有处理人。
problem.unconfirmed|不知道这次修改是否已生效。
problem.unconfirmed.do|没有响应确认它。请先重新加载页面，看清之后再做其他事。审计日志里可能有结果。
problem.no-audit|这个服务器没有审计日志。
problem.no-audit.do|因此在这里不能修改任何内容，也不能查看隐藏内容。
problem.busy|服务器同时处理的请求过多。
problem.busy.do|什么都没有做。请稍后重试。
problem.not-json|这个响应不是这个服务器发出的。
problem.not-json.do|可能是它前面的代理发出的，也许你在那里的登录已经过期。请重新加载页面。
problem.other-secret|这个服务器的 secret 与该命名空间一直使用的不同。
problem.other-secret.do|因此在这里不能修改任何内容，也不能查看隐藏内容。请用那个服务的 RETRYSAFE_SECRET 启动这个服务器。
problem.no-quotas|这个存储不报告租户的用量。
problem.no-list|这个后端不能列出锁。
problem.bad-request|服务器不接受这个请求。什么都没有做。
problem.ambiguous|有多条记录符合。
problem.cross-origin|请求来自其他网站的页面。什么都没有做。
problem.other|没有成功。
`;
