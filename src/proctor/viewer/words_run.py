"""The Chinese words of the pages about runs and comparisons, and of what all pages have."""

# ruff: noqa: RUF001 - the punctuation is Chinese

from __future__ import annotations

from collections.abc import Mapping

CHINESE: Mapping[str, str] = {
    "More than one thing differs: the difference cannot be put down to any one of them.": (
        "不止一处不同：无法把差异归因于其中任何一项。"
    ),
    "The identity of one of them is not known: whether tasks are the same cannot be said.": (
        "其中一方的身份未知：无法判断任务是否相同。"
    ),
    "not the same number of attempts of a task: {here} in {first}, {there} in {second}": (
        "每个任务的尝试次数不同：{first} 为 {here}，{second} 为 {there}"
    ),
    "not the same quantity, so no fair comparison: with early exit a task is solved at least once": (
        "两者不是同一个量，比较不公平：提前结束时，任务只计是否至少解决一次"
    ),
    "slots without a score: {here} in {first}, {there} in {second}": (
        "没有得分的槽位：{first} 中 {here} 个，{second} 中 {there} 个"
    ),
    "limits and retries differ, which no identity has": "限制与重试设置不同，而任何标识都不含这些",
    "mean": "均值",
    "means with 95% intervals, of the attempts that have them": "均值及其 95% 区间，仅含有该子得分的尝试",
    "difference": "差异",
    "tasks": "任务数",
    "sub-score": "子得分",
    "sub-scores": "子得分",
    "the differences of sub-scores, paired by task": "子得分的差异，按任务配对",
    "the journal of {run} has damaged lines: what is missing is lost": "{run} 的日志有损坏的行：缺失的内容无法恢复",
    "whatever they would score, the difference is from {low} to {high}": (
        "无论它们得分多少，差异都在 {low} 至 {high} 之间"
    ),
    "with early exit a task counts as solved at least once: that is no estimate of one attempt": (
        "提前结束时，任务只计是否至少解决一次：这不是对单次尝试的估计"
    ),
    "The identities are the same.": "身份相同。",
    "a comparison takes two runs or more: choose them in the list of runs": (
        "比较至少需要两次运行：请在运行列表中选择"
    ),
    "agent time": "智能体用时",
    "any": "全部",
    "attempt {ordinal}: {state}": "尝试 {ordinal}：{state}",
    "attempt": "尝试",
    "attempts": "尝试",
    "back to the list of runs": "返回运行列表",
    "benchmark": "基准",
    "chance that at least one, or all, of k attempts pass": "k 次尝试中至少一次、或全部通过的概率",
    "compare": "比较",
    "compare the chosen runs": "比较所选的运行",
    "compare {run}": "比较 {run}",
    "compare these runs": "比较这些运行",
    "comparison": "比较",
    "complete": "已完成",
    "cost of a pass": "每次通过的费用",
    "cost of a task": "每个任务的费用",
    "count": "数量",
    "decision": "决定",
    "filter": "筛选",
    "harness": "执行框架",
    "identities differ in": "身份的不同之处",
    "interrupted": "已中断",
    "issues by code": "按代码统计的问题",
    "killed": "被强制终止",
    "language": "语言",
    "left out: the task or its grading is not the same": "未计入：任务或其评分方式不同",
    "mean score": "平均得分",
    "mean score of each task: {first} across, {second} up": "各任务的平均得分：横轴 {first}，纵轴 {second}",
    "no page": "没有页面",
    "no run is here that fits": "没有符合条件的运行",
    "no score in one of them": "其中一方没有得分",
    "no task has a score in both": "没有任务在双方都有得分",
    "not found": "未找到",
    "one row for each task, one cell for each of its attempts": "每个任务一行，每次尝试一格",
    "only in {run}": "仅在 {run} 中",
    "pages": "页面",
    "pages of the list": "列表分页",
    "passed, with 95% interval": "通过率（95% 区间）",
    "plan.json cannot be read: tasks are in the order in which attempts were started": (
        "无法读取 plan.json：任务按尝试开始的先后排列"
    ),
    "reason": "原因",
    "reused from {run}": "复用自 {run}",
    "reused_failed": "复用，未通过",
    "reused_passed": "复用，通过",
    "run": "运行",
    "runs": "运行",
    "runs, each with its result, time and cost": "各次运行的结果、用时与费用",
    "score against cost, with 95% intervals": "得分与费用（95% 区间）",
    "scored": "有得分",
    "show": "显示",
    "skip to the content": "跳到正文",
    "slots": "槽位",
    "so many runs are not compared on a page: `proctor compare` does it": (
        "页面不比较这么多次运行：请用 `proctor compare`"
    ),
    "started": "开始时间",
    "state": "状态",
    "stopped": "已停止",
    "tag": "标签",
    "tags": "标签",
    "task": "任务",
    "tasks and attempts": "任务与尝试",
    "tasks left out": "未计入的任务",
    "text": "文本",
    "the runs that are compared": "所比较的运行",
    "the tasks with each tag": "带有各标签的任务",
    "there is no attempt `@{attempt}` in this run, or not any more": "此次运行中没有尝试 `@{attempt}`，或已不存在",
    "there is no file `{file}`, or not any more": "没有文件 `{file}`，或已不存在",
    "there is no run `{run}`, or not any more": "没有运行 `{run}`，或已不存在",
    "there is no such page": "没有这个页面",
    "this attempt has no page in this site: `proctor show @ATTEMPT` prints it": (
        "此站点没有这次尝试的页面：可用 `proctor show @ATTEMPT` 查看"
    ),
    "this cannot be shown": "无法显示",
    "this is a bug of proctor: the command that wrote the pages says more": (
        "这是 proctor 的缺陷：详情见写出这些页面的命令的输出"
    ),
    "this is a bug of proctor: the terminal of the viewer says more": "这是 proctor 的缺陷：详情见运行查看器的终端",
    "tokens": "词元",
    "total": "总计",
    "unknown": "未知",
    "what an attempt takes, median (90th percentile)": "每次尝试的消耗：中位数（第 90 百分位）",
    "what was decided for slots, and why": "对槽位的决定及其原因",
    "what was planned": "计划",
    "what went wrong, and how often": "出了什么问题，出现几次",
    "with Holm's correction": "经 Holm 校正",
    "{count} unknown": "{count} 个未知",
    "{cost} of it for reused attempts, in the runs that made them": "其中 {cost} 为复用的尝试在原运行中的费用",
    "{found} of {total} runs": "{total} 次运行中的 {found} 次",
    "{found} of {total} tasks": "{total} 个任务中的 {found} 个",
    "{run} is better": "{run} 更好",
    "{run} is worse": "{run} 更差",
    "{second} against {first}": "{second} 对 {first}",
    "{slots} slots of {tasks} tasks": "{tasks} 个任务的 {slots} 个槽位",
    "{tasks} tasks": "{tasks} 个任务",
}
