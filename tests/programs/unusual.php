<?php
// Functions of which each has known callers, in stacks that are hard to tell: `php unusual.php [SECONDS]`.

function burn(): int {
    $sum = 0;
    for ($i = 0; $i < 3000; $i++) {
        $sum = ($sum * 31 + $i) % 1000003;
    }
    return $sum;
}

// More functions than the sampler reads.
function of_deep(int $n): int { return burn(); }
function nested(int $left): int {
    return $left ? nested($left - 1) : array_sum(array_map('of_deep', [1, 2, 3]));
}

// PHP gives back what a function has kept while its loop is still on the stack.
class Kept {
    public function __destruct() {
        $list = [2, 1];
        usort($list, 'of_sort');
    }
}
function of_sort($a, $b): int { burn(); return $a <=> $b; }
function keeps(int $n): int {
    $kept = new Kept();
    return $n;
}

// One closure, and two classes.
class One {
    public function runs(): int { return burn(); }
}
class Two {
    public function runs(): int { return burn(); }
}
function bound(string $class): int {
    $closure = function (): int {
        return $this->runs();
    };
    return Closure::bind($closure, new $class(), $class)();
}

// A generator that delegates.
function innermost() { yield burn(); yield burn(); }
function delegates() { yield from innermost(); }

function phase_deep(): void { nested(4500); }
function phase_keeps(): void { array_map('keeps', [1, 2]); }
function phase_bound(): void { bound('One'); bound('Two'); }
function phase_delegates(): void { foreach (delegates() as $value) { } }
function phase_eval(): void { eval("burn();\nburn();"); }

$end = microtime(true) + (float) ($argv[1] ?? 3);
while (microtime(true) < $end) {
    phase_deep();
    phase_keeps();
    phase_bound();
    phase_delegates();
    phase_eval();
}
