<?php
// Functions of which each has known callers, in phases: `php known.php [SECONDS]`. `bottom` burns the time; `phase_rec` comes to it through 31 `rec`,
// `phase_again` through 11 `keyed`, between which C code (`array_map`) calls.

function bottom(): int {
    $sum = 0;
    for ($i = 0; $i < 400; $i++) {
        $sum = ($sum * 31 + $i) % 1000003;
    }
    return $sum;
}

function rec(int $left): int {
    if ($left === 0) {
        return bottom();
    }
    return rec($left - 1);
}

function keyed(int $left): int {
    if ($left === 0) {
        return bottom();
    }
    return again($left - 1);
}

function again(int $left): int {
    return array_sum(array_map('keyed', [$left]));
}

function compared($a, $b): int {
    bottom();
    return $a <=> $b;
}

function replaced(array $match): string {
    return (string) bottom();
}

function produced(): Generator {
    for ($i = 0; $i < 3; $i++) {
        yield bottom();
    }
}

class Made {
    public int $kept;

    public function __construct() {
        $this->kept = bottom();
    }

    public static function stat(): int {
        return bottom();
    }

    public function __get(string $name): int {
        return bottom();
    }

    public function __toString(): string {
        return (string) bottom();
    }

    public function __destruct() {
        bottom();
    }
}

function phase_rec(): void { rec(30); }
function phase_again(): void { keyed(10); }

function phase_sort(): void {
    $list = [3, 1, 2];
    usort($list, 'compared');
}

function phase_sub(): void {
    preg_replace_callback('/a/', 'replaced', 'aba');
}

function phase_yield(): void {
    foreach (produced() as $value) {
    }
}

function phase_class(): void {
    $made = new Made();
    $made->missing;
    (string) $made;
    Made::stat();
}

function phase_closure(): void {
    $inner = function (): int {
        return bottom();
    };
    $inner();
}

// The second loop runs three times as long.
function phase_lines(): int {
    $sum = 0;
    for ($i = 0; $i < 3000; $i++) $sum = ($sum + $i) % 1000003;
    for ($i = 0; $i < 9000; $i++) $sum = ($sum + $i) % 1000003;
    return $sum;
}

function main(float $seconds): void {
    $phases = ['phase_rec', 'phase_again', 'phase_sort', 'phase_sub', 'phase_yield', 'phase_class', 'phase_closure', 'phase_lines'];
    $end = microtime(true) + $seconds;
    while (microtime(true) < $end) {
        foreach ($phases as $phase) {
            $phase();
        }
    }
}

main((float) ($argv[1] ?? 3));
