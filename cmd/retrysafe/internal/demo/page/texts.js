// All texts: key, English, Chinese. {name} is a value. The server reads this file too, for the pages of the forms.
export default `
title|retrysafe demo: press Pay twice, get charged once|retrysafe 演示：按两次付款，只扣一次款
brand|retrysafe demo|retrysafe 演示
head|Press Pay twice. Get charged once.|按两次付款，只扣一次款。
lead|Every press sends one payment to one shop in two ways: straight, and through a gateway that stores the answer under the payment's key. See what the shop really charged.|每按一次，同一笔付款就以两种方式发给同一家商店：直接发送，以及经过网关。网关用付款的键保存响应。看看商店到底扣了几次款。
notice.away|The demonstration does not answer. If it has ended, start it again: retrysafe demo|演示程序没有响应。如果它已经结束，请重新启动：retrysafe demo
notice.too-many|Too many presses wait for their answers, so nothing was done. Press again in a few seconds.|等待响应的请求太多，什么都没有做。请过几秒再按。
notice.copies|The copies could not be counted: {error}|无法统计这些重复请求：{error}
notice.examines|An examination runs already, so nothing was done.|已经有一次检查在运行，什么都没有做。
bill|Payment {number}: one teapot, {price}|付款 {number}：一把茶壶，{price}
bill.key|Its key|它的键
bill.hint|Every press repeats this key. It stays until you make a new payment.|每次按下都发送同一个键，直到你新建一笔付款。
pay|Pay {price}|付款 {price}
new|New payment|新建付款
trouble|Make trouble|制造故障
trouble.ten|Press 10× at once|同时按 10 次
trouble.lost|Pay, lose the answer|付款，丢掉响应
trouble.failed|Pay, get a 500|付款，得到 500
trouble.killed|Pay, kill the gateway|付款，杀死网关
trouble.slow|Slow shop (3 s)|商店变慢（3 秒）
happened|What just happened|刚才发生了什么
happened.start|Press Pay. The page sends the payment both ways, and shows what the shop charged.|请按“付款”。页面会以两种方式发送这笔付款，并显示商店扣了几次款。
happened.new|This is a new payment with a new key. Press Pay.|这是一笔新的付款，有新的键。请按“付款”。
happened.sent|The payment is on its way to the shop.|付款正在发往商店。
happened.once|One press, one charge on both sides. Now press Pay again, as a customer does who sees no answer.|按了一次，两边各扣款一次。现在再按一次“付款”，就像没有看到响应的顾客那样。
happened.again|{n} presses with one key. Without protection the shop ran each of them: {charges}. The gateway sent only the first to the shop, and replayed its answer to the others.|用一个键按了 {n} 次。没有保护时，商店每次都执行：{charges}。网关只把第一次发给商店，其余的都重放了它的响应。
happened.ten|{n} presses at once with one key. Without protection the shop ran each of them: {charges}. The gateway sent one to the shop; the others waited and got its answer.|用一个键同时按了 {n} 次。没有保护时，商店每次都执行：{charges}。网关只把一次发给商店，其余的等待并得到它的响应。
happened.ten-busy|{n} presses at once with one key. Without protection the shop ran each of them: {charges}. The gateway sent one to the shop, and answered 409 to those that could not wait for it: press again later.|用一个键同时按了 {n} 次。没有保护时，商店每次都执行：{charges}。网关只把一次发给商店，等不到结果的得到 409：请稍后再按。
happened.lost|The shop charged, and its answer was lost on the way back. The customer sees nothing. Press Pay again: without protection that is one more charge, with the key it gets the first answer.|商店扣了款，响应却在返回途中丢失。顾客什么也看不到。再按一次“付款”：没有保护会再扣一次款，有键则得到第一次的响应。
happened.lost-too|This answer was lost too. Without protection the shop had charged once more: {charges}. The gateway had only sent the stored answer, so the shop charged once.|这个响应也丢失了。没有保护时，商店又扣了一次款：{charges}。网关只是发出保存的响应，所以商店只扣款一次。
happened.lost-retry|The answer was lost. The retry got the stored answer: the shop charged once. Without protection the retry was a new payment: {charges}.|响应丢失了。重试得到保存的响应：商店只扣款一次。没有保护时，重试是一笔新的付款：{charges}。
happened.failed|The shop charged, and then answered 500. The gateway stored that answer, because an error does not say that nothing was done. Press Pay again.|商店扣了款，然后返回 500。网关保存了这个响应，因为出错不等于什么都没有做。请再按一次“付款”。
happened.failed-none|The shop answered 500. The gateway stored that answer, because a service can fail after it has acted. Press Pay again.|商店返回 500。网关保存了这个响应，因为服务可能在生效之后才出错。请再按一次“付款”。
happened.failed-retry|The retry got the stored 500. The gateway did not ask the shop again, since it had charged before it failed: charged once. Without protection the retry was a new payment: {charges}.|重试得到保存的 500。商店出错之前已经扣款，所以网关没有再问商店：只扣款一次。没有保护时，重试是一笔新的付款：{charges}。
happened.failed-none-retry|The retry got the stored 500. The gateway does not know whether the shop had acted before it failed, so it did not send the payment again.|重试得到保存的 500。网关不知道商店出错之前是否已经生效，所以没有再次发送这笔付款。
happened.broken|The connection to the gateway broke during the payment. Press Pay again: the same key finds out what happened.|付款途中，到网关的连接断开了。再按一次“付款”：用同一个键查明结果。
happened.killed|The shop charged, and the gateway was killed before it had the answer. Its record is on disk. Start the gateway again, then press Pay.|商店扣了款，网关在得到响应之前被杀死了。它的记录在磁盘上。请重新启动网关，再按“付款”。
happened.doubt|The gateway died after it had sent the payment and before it had the answer. It does not send the payment again. An operator looks into the shop and resolves the key, as shown below.|网关在发出付款之后、得到响应之前崩溃了。它不会再次发送这笔付款。运维人员查看商店，然后按下面的方法处理这个键。
happened.resolved|An operator has resolved the key. The retry got that answer, and the shop was not asked again: charged once.|运维人员处理了这个键。重试得到这个响应，没有再问商店：只扣款一次。
happened.done|An operator has resolved the key as done, without an answer. The retry is told that this was done before, and the shop was not asked again: charged once.|运维人员把这个键处理为“已完成”，但没有给出响应。重试得知此前已经完成，没有再问商店：只扣款一次。
happened.down|The gateway is down. Without it no protected payment reaches the shop. Start it again, then press Pay.|网关已停止。没有它，受保护的付款到不了商店。请重新启动它，再按“付款”。
happened.away|The gateway was down, so the protected press did nothing. Without protection the shop ran it: {charges}. Start the gateway again, then press Pay.|网关已停止，所以受保护的这一次什么都没有做。没有保护时，商店执行了它：{charges}。请重新启动网关，再按“付款”。
happened.back|The gateway is back, and its records were on disk. The retry got the stored answer: the shop charged once. Without protection: {charges}.|网关恢复了，它的记录在磁盘上。重试得到保存的响应：商店只扣款一次。没有保护时：{charges}。
happened.back-ran|The gateway is back. The press before had done nothing, so this one ran: the shop charged once.|网关恢复了。之前的一次什么都没有做，所以这一次执行了：商店只扣款一次。
happened.busy|The first press may still be running, so the gateway answered 409 and sent nothing to the shop. Press Pay again in a few seconds.|第一次可能还在执行，所以网关返回 409，没有向商店发送任何请求。请过几秒再按“付款”。
happened.refused|The gateway answered {status}, and sent nothing to the shop.|网关返回 {status}，没有向商店发送任何请求。
happened.straight|{n} presses with one key. Without protection the shop ran each of them: {charges}. The gateway sent one of them to the shop.|用一个键按了 {n} 次。没有保护时，商店每次都执行：{charges}。网关只把其中一次发给商店。
charges.one|1 charge|扣款 1 次
charges.many|{n} charges|扣款 {n} 次
without|Without protection|没有保护
without.way|You {arrow} shop|你 {arrow} 商店
without.strip|Nothing stands between you and the shop.|你和商店之间没有任何东西。
without.record|No record is kept: every press is a new payment to the shop.|没有记录：每次按下对商店都是一笔新的付款。
with|With retrysafe|使用 retrysafe
with.way|You {first} gateway {second} shop|你 {first} 网关 {second} 商店
to|to|到
tally.without|Unprotected: {what}|没有保护：{what}
tally.with|With retrysafe: {what}|使用 retrysafe：{what}
tally.unknown|unknown|未知
tally.none|no charge yet|还没有扣款
tally.once|✓ charged once|✓ 扣款一次
tally.many|✗ charged {n}×|✗ 扣款 {n} 次
verdict.unknown|The shop does not answer|商店没有响应
verdict.none|Not charged yet|还没有扣款
verdict.once|✓ Charged once|✓ 扣款一次
verdict.many|✗ Charged {n}×|✗ 扣款 {n} 次
sum|{sum} in all|共 {sum}
sum.much|{sum} in all, {much} too much|共 {sum}，多扣 {much}
receipts|In the shop's own table|商店自己的表里
receipts.label|Payments in the shop's own table|商店自己的表里的付款
receipts.none|no payment yet|还没有付款
receipts.more|and {n} more|还有 {n} 笔
answers|Answers you got|你得到的响应
answers.none|Nothing yet: press Pay.|还没有：请按“付款”。
answers.before|and {n} before|此前还有 {n} 个
answers.said|{side}, press {n}: {status}. {text}|{side}，第 {n} 次：{status}。{text}
curl|Copy last as curl|复制最后一次的 curl
copy|Copy|复制
copied|Copied|已复制
told.sent|Waiting for an answer|等待响应
told.lost|No answer came. Was it charged? The customer can only press again.|没有响应。扣款了吗？顾客只能再按一次。
told.away|The gateway is down: nothing was done.|网关已停止：什么都没有做。
told.away-shop|The shop is down: nothing was done.|商店已停止：什么都没有做。
told.broken|The connection broke midway. Was it charged? Press again to find out.|连接中途断开。扣款了吗？再按一次就知道。
told.paid|Paid: payment {id}|已付款：付款 {id}
told.replayed|The first answer again: payment {id}|又是第一次的响应：付款 {id}
told.error|The shop failed. Was it charged?|商店出错了。扣款了吗？
told.error-replayed|The first answer again: the shop had failed.|又是第一次的响应：商店当时出错了。
told.other|The answer has no payment in it.|响应里没有付款。
told.again|{text} Press again in {n} s.|{text}请过 {n} 秒再按。
status.lost|lost|丢失
status.away|down|停止
status.broken|cut|断开
replayed|replayed|重放
code.in-progress|The first press may still be running, so this one did nothing.|第一次可能还在执行，所以这一次什么都没有做。
code.outcome-unknown|In doubt: the outcome of the first press is unknown, so this one did nothing.|存疑：第一次的结果未知，所以这一次什么都没有做。
code.answer-not-kept|This was done before; its answer is not known.|此前已经完成，但不知道它的响应。
code.already-done|This was done before.|此前已经完成。
code.attempt-failed|The press that this one waited for had no effect. Press again.|这一次等待的那次没有生效。请再按一次。
code.resolved-failed|Refused for good: an operator found that it failed.|永久拒绝：运维人员查明它失败了。
code.payload-mismatch|The key belongs to another payment. Nothing was done.|这个键属于另一笔付款。什么都没有做。
code.upstream-unreachable|The shop is down: nothing was done.|商店已停止：什么都没有做。
code.store-unavailable|The records cannot be reached: nothing was done.|无法访问记录：什么都没有做。
code.shutting-down|The gateway is stopping: nothing was done.|网关正在停止：什么都没有做。
code.lease-lost|Another attempt has taken over.|另一次执行接手了。
gateway.up|The gateway runs, process {pid}.|网关在运行，进程 {pid}。
gateway.down|The gateway is down: it was killed.|网关已停止：它被杀死了。
gateway.kill|Kill it (kill -9)|杀死它（kill -9）
gateway.start|Start it again|重新启动
record.completed|Record of the key, on disk: completed, with the answer.|磁盘上这个键的记录：已完成，有响应。
record.in-progress|Record of the key, on disk: in progress; in doubt in {n} s if no heartbeat comes.|磁盘上这个键的记录：正在执行；如果没有心跳，{n} 秒后存疑。
record.in-doubt|Record of the key, on disk: in doubt.|磁盘上这个键的记录：存疑。
record.failed|Record of the key, on disk: refused for good.|磁盘上这个键的记录：永久拒绝。
record.released|Record of the key, on disk: released: nothing was done, the next press runs.|磁盘上这个键的记录：已释放：什么都没有做，下一次会执行。
record.none|Record of the key, on disk: none yet.|磁盘上这个键的记录：还没有。
doubt|In doubt: the outcome is unknown|存疑：结果未知
doubt.lead|The gateway died after it had sent the payment and before it had an answer. It cannot know whether the shop charged, so it does not send the payment again. Now an operator looks into the shop's table, {found} and resolves the key:|网关在发出付款之后、得到响应之前崩溃了。它无法知道商店是否扣款，所以不会再次发送这笔付款。现在运维人员查看商店的表，{found}，然后处理这个键：
doubt.found|finds payment {id} there,|找到付款 {id}
doubt.not-found|finds no payment there,|没有找到付款
doubt.console|{link}, in the browser (start the gateway again first), or by commands:|{link}（请先重新启动网关），或者用命令：
doubt.link|Resolve it in the gateway's console|在浏览器里打开网关的控制台处理
doubt.list|List the keys in doubt|列出存疑的键
doubt.resolve|Resolve the key, then press Pay again|处理这个键，再按“付款”
forms|Forms: one teapot, sent more than once|表单：一把茶壶，提交不止一次
forms.lead|Six real forms, each in a frame, each with one mechanism or none. The shop takes 0.7 s. Click twice in one, or let the page do it; go back and order again. See how many teapots the shop sent.|六个真实的表单，各在一个框架里，各有一种机制或者没有。商店处理一个订单需要 0.7 秒。在一个表单里点两次，或者让页面来点；返回再订一次。看看商店寄出了几把茶壶。
forms.twice|Click twice in all six|六个都点两次
forms.new|New forms|新的表单
forms.none|No order yet|还没有订单
forms.good|✓ {orders} by {pages}|✓ {pages}下了 {orders}
forms.bad|✗ {orders} by {pages}|✗ {pages}下了 {orders}
forms.pages.one|one form|一张表单
forms.pages.many|{n} forms|{n} 张表单
forms.orders.one|1 order|1 个订单
forms.orders.many|{n} orders|{n} 个订单
forms.happened.none|Nothing was ordered yet.|还没有订单。
forms.happened.good|Each form that was sent made one order.|提交的每张表单都只有一个订单。
forms.happened.bad|{n} of 6 forms made more orders than were meant: each request was an order. A form with a token or a key gets the first answer again.|6 个表单里有 {n} 个的订单比想要的多：每个请求都是一个订单。带防重令牌或键的表单会再次得到第一次的响应。
forms.happened.copies|The copies made {orders} more. A disabled button or a redirect is only on the page, so it stops no copy. A token or a key is checked by the server: those copies got the first answer again.|这些重复请求又下了 {orders}。禁用的按钮和重定向只在页面上，挡不住重复请求。防重令牌和键由服务端检查：这些请求再次得到第一次的响应。
form.plain|Plain form|普通表单
form.plain.hint|Every request is an order.|每个请求都是一个订单。
form.button|Disabled button|禁用按钮
form.button.hint|The page stops the second click. It cannot stop a reload, Back, or a copy.|页面挡住第二次点击。它挡不住刷新、后退和重复请求。
form.redirect|Redirect alone|只有重定向
form.redirect.hint|A reload shows the result again. A second click was sent before that.|刷新只是再次显示结果。第二次点击在此之前就已发出。
form.token|One-time token|防重令牌
form.token.hint|The server issued a token with the form. It is good for one order.|服务端随表单签发令牌，一个令牌只能下一个订单。
form.key|Hidden key|隐藏的键
form.key.hint|Each page has a random key. The same key is the same order.|每个页面有一个随机的键。键相同就是同一个订单。
form.all|Key, redirect, button|键、重定向、按钮
form.all.hint|The three together: one order, and a page that behaves well.|三者一起用：一个订单，页面的表现也正确。
form.frame|{title}: order a teapot|{title}：订一把茶壶
form.order|Order a teapot|订一把茶壶
form.thanks.title|Thank you|谢谢
form.thanks|Thank you: order {order}.|谢谢：订单 {order}。
form.another|Another form|另一张表单
form.not-made|The form cannot be made now: {error}|现在无法生成表单：{error}
form.not-whole|The form did not arrive whole, and nothing was done.|表单没有完整到达，什么都没有做。
form.no-answer|The shop did not answer.|商店没有响应。
attack|Attack: send the last request of each form again|攻击：把每个表单的最后一个请求再发一次
attack.hint|The same bytes, five times, past the page and its buttons: as a proxy that retries, a script, or an attacker who has seen the request. Order something first.|同样的字节发五次，绕过页面和按钮：就像会重试的代理、脚本，或者看到了请求的攻击者。请先下一个订单。
attack.send|Send each 5 times more|各再发 5 次
attack.form|form|表单
attack.answer|answer to the copies|重复请求得到的响应
attack.made|orders they made|它们下的订单
attack.all|in all|总共
attack.more|{n} more|多 {n} 个
attack.no-more|none|没有
attack.replayed|{n}× the first answer again|{n} 次都是第一次的响应
attack.new|{n}× “thank you”, as if new|{n} 次“谢谢”，当作新的订单
attack.said|Copies sent. {all}|已发出重复请求。{all}
attack.said.one|{form}: {orders} more.|{form}：多 {orders}。
examine|Examined by retrysafe check|用 retrysafe check 检查
examine.lead|The command retrysafe check sends a request again in the ways in which real clients do, and counts what took effect. Here it examines a shop without protection, and the same shop behind the gateway. Both are started for it alone, so your payments and orders above do not change.|命令 retrysafe check 按真实客户端的各种方式重复发送一个请求，并统计生效了几次。这里它检查一家没有保护的商店，以及网关后面的同一家商店。两者专为这次检查启动，所以上面的付款和订单不会改变。
examine.without|A shop without protection|没有保护的商店
examine.with|The same shop behind the gateway|网关后面的同一家商店
examine.start|Examine both shops|检查两家商店
examine.again|Examine both again|重新检查
examine.none|Not examined yet.|还没有检查。
examine.waits|Waits for the other side.|等待另一边。
examine.running|{n} of {all}: {title}|第 {n} 项，共 {all} 项：{title}
examine.progress|Progress of the examination|检查的进度
examine.starts|Starts a shop and a gateway.|正在启动一家商店和一个网关。
examine.runs|Checks run one after the other, first without protection, then through the gateway.|检查项一个接一个运行，先是没有保护的，然后是经过网关的。
examine.stopped|The examination stopped: {error}|检查中断了：{error}
examine.passed|{passed} of {all} passed|{all} 项中 {passed} 项通过
examine.score|{requests} requests. {broken} broken, {critical} of them critical.|{requests} 个请求。{broken} 项有问题，其中 {critical} 项危急。
examine.score.none|{requests} requests. No check found a fault.|{requests} 个请求。没有检查项发现问题。
examine.report|Open the report of this side|打开这一边的报告
examine.no-report|There is no report of this side: press “Examine both shops” first.|这一边没有报告：请先按“检查两家商店”。
examine.happened.fault|Without protection {bad} of {all} checks found a fault: retries take effect again. Behind the gateway {good} did. Each line leads to the check's page, which says what was sent and what is wrong.|没有保护时，{all} 项检查里有 {bad} 项发现问题：重试会再次生效。网关后面是 {good} 项。每一行都链接到检查项的页面，那里说明发送了什么、什么算有问题。
mark.passed|✓ passed|✓ 通过
mark.noted|! noted|! 提示
mark.broken|✗ broken|✗ 有问题
mark.undecided|? undecided|? 未定
mark.harm|{mark} ({severity})|{mark}（{severity}）
severity.critical|critical|危急
severity.serious|serious|严重
severity.minor|minor|轻微
check.sequential-duplicate|a duplicate does not act again|重复请求不会再次生效
check.concurrent-duplicates|duplicates at once act once|同时到达的重复请求只生效一次
check.new-key|a new key acts again|换一个新的键会再次生效
check.other-body|a key does not fit another body|一个键不能用于另一个请求体
check.json-order|the same JSON in another order does not act|顺序不同的同一 JSON 不会再次生效
check.other-caller|a key belongs to its caller|一个键只属于它的调用者
check.no-credentials|a stored answer needs credentials|拿到保存的响应需要凭据
check.hang-up|a client that hangs up can retry|断开连接的客户端可以重试
check.doubled-key|two keys are refused|带两个键的请求会遭到拒绝
check.long-key|a long key is refused or kept whole|长的键要么遭到拒绝，要么完整保存
check.fidelity|a duplicate gets the first answer, whole|重复请求得到第一次的完整响应
check.replay-marker|a replayed answer says so|重放的响应会标明自己是重放
footer|The charges are read from the shop's own table, ten times a second. Everything here runs on this machine and is removed with Ctrl-C.|扣款从商店自己的表里读取，每秒十次。这里的一切都在本机运行，按 Ctrl-C 就会删除。
by-hand|Copy it by hand|手动复制
by-hand.lead|The browser does not let this page use the clipboard. The text is selected: copy it with Ctrl-C or ⌘C.|浏览器不允许这个页面使用剪贴板。文本已选中：请用 Ctrl-C 或 ⌘C 复制。
by-hand.text|Text to copy|要复制的文本
close|Close|关闭
`;
