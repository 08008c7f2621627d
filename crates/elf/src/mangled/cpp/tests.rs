use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::{demangled, without_parameters};

/// Names that g++ 12 and clang 14 made, and how `nm -C` of binutils 2.40 writes them.
const NAMES: [(&str, &str); 39] = [
    ("_Z2fpPFPFvcEiE", "fp(void (*(*)(int))(char))"),
    ("_Z2raPA3_A4_i", "ra(int (*) [3][4])"),
    (
        "_Z3pmfM1BKFvvEMS_iMS_FivOEPDoFvvE",
        "pmf(void (B::*)() const, int B::*, int (B::*)() &&, void (*)() noexcept)",
    ),
    ("_Z4packIJiDnEEvDpOT_", "void pack<int, decltype(nullptr)>(int&&, decltype(nullptr)&&)"),
    ("_Z4onceIRFvvEJEEvOT_DpOT0_", "void once<void (&)()>(void (&)())"),
    ("_Zli3_kmy", "operator\"\" _km(unsigned long long)"),
    (
        "_Z4pickIiENSt9enable_ifIXsr6is_bigIT_EE5valueES1_E4typeES1_",
        "std::enable_if<is_big<int>::value, int>::type pick<int>(int)",
    ),
    (
        "_Z4callIZN6Worker3runE4ModeEUliE_EiT_",
        "int call<Worker::run(Mode)::{lambda(int)#1}>(Worker::run(Mode)::{lambda(int)#1})",
    ),
    ("_ZZN6Worker3runE4ModeENKUliE_clEi", "Worker::run(Mode)::{lambda(int)#1}::operator()(int) const"),
    ("_ZThn8_N4Both6secondEv", "non-virtual thunk to Both::second()"),
    ("_ZTv0_n24_N2V31wEv", "virtual thunk to V3::w()"),
    ("_ZTch0_v0_n32_N2V31cEv", "covariant return thunk to V3::c()"),
    ("_ZTC2V30_2V1", "construction vtable for V1-in-V3"),
    ("_ZTV2V3", "vtable for V3"),
    ("_ZGVZ1fvE1x", "guard variable for f()::x"),
    ("_ZTW3tlsB5cxx11", "TLS wrapper function for tls[abi:cxx11]"),
    ("_ZN1BcvT_IiEEv", "B::operator int<int>()"),
    ("_ZNK1BcvPiEv", "B::operator int*() const"),
    ("_ZNO1BaSEOS_", "B::operator=(B&&) &&"),
    ("_ZNKR1BclEi", "B::operator()(int) const &"),
    ("_ZN1BnwEm", "B::operator new(unsigned long)"),
    ("_ZNKSs5emptyEv", "std::string::empty() const"),
    (
        "_ZNSsC1ERKSs",
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string(std::string const&)",
    ),
    (
        "_ZStlsISt11char_traitsIcEERSoS2_PKc",
        concat!("std::ostream& std::operator<< <std::char_traits<char> >", "(std::ostream&, char const*)",),
    ),
    ("_ZN12_GLOBAL__N_12anIiEEvT_", "void (anonymous namespace)::an<int>(int)"),
    ("_Z3sumIJilfEEDTfrplfp_EDpT_", "decltype (({parm#1}+...)) sum<int, long, float>(int, long, float)"),
    (
        "_Z3cntIJiiEEiSt17integral_constantIiXsZT_EEDpT_",
        "int cnt<int, int>(std::integral_constant<int, 2>, int, int)",
    ),
    ("_Z2avILc97EEvv", "void av<(char)97>()"),
    ("_Z2avIL1E1EEvv", "void av<(E)1>()"),
    ("_Z4litsILln5ELh200ELb1ELsn3EEvv", "void lits<-5l, (unsigned char)200, true, (short)-3>()"),
    ("_Z2ffIXadL_Z2fvi1BEEEvv", "void ff<&(fv(int, B))>()"),
    ("_Z3fpmIXadL_ZNVK1B2cvEvEEEvv", "void fpm<&(B::cv() const volatile)>()"),
    ("_ZDC3bi13bi2E", "[bi1, bi2]"),
    ("_ZN1A1xMUlvE_clEv", "A::x::{lambda()#1}::operator()()"),
    (
        "_Z3vecDv4_iCfnoDuDsDiwe",
        concat!(
            "vec(int __vector(4), float _Complex, __int128, unsigned __int128, char8_t, char16_t, char32_t, ",
            "wchar_t, long double)",
        ),
    ),
    ("_Z1fv.part.0.constprop.1", "f() [clone .part.0] [clone .constprop.1]"),
    ("_ZL1fi.llvm.123456", "f(int) [clone .llvm.123456]"),
    ("_Z1fILi3EEvRAplT_Li1E_KcPFvzE", "void f<3>(char const (&) [(3)+(1)], void (*)(...))"),
    ("_ZZN1A1fEiEd0_NKUlvE_clEv", "A::f(int)::{default arg#2}::{lambda()#1}::operator()() const"),
];

#[test]
fn names_are_written_as_nm_writes_them() {
    for (raw, name) in NAMES {
        assert_eq!(demangled(raw), name, "{raw}");
    }
}

/// Differences to `nm -C` that we chose: where it fails, leaves a comma without an argument, or takes the parameter of another
/// template.
#[test]
fn names_that_nm_gets_wrong_are_right() {
    for (raw, name) in [
        // `emitOp<>(Opcode, , Source const&)` and `Pass<Manager<M>>`.
        ("_Z6emitOpIJEEb6OpcodeDpRKT_RK6Source", "bool emitOp<>(Opcode, Source const&)"),
        ("_Z1f4PassI7ManagerI1MJEEE", "f(Pass<Manager<M> >)"),
        // `operator()<int, int>(gl, int)`.
        (
            "_ZNK2glMUlT_RT0_E_clIiiEEDaS_S1_",
            "auto gl::{lambda(auto:1, auto:2&)#1}::operator()<int, int>(int, int&) const",
        ),
        // Mangled.
        ("_ZN1BcvSt6vectorIT_SaIS1_EEIcEEv", "B::operator std::vector<char, std::allocator<char> ><char>()"),
        // `f(int)::{lambda()#1}::~f()`.
        ("_ZZ1fiENUlvE_D2Ev", "f(int)::{lambda()#1}::~{lambda()#1}()"),
        // The second parameter was `f(int)::{lambda()#1}&&`.
        (
            "_Z4callIRZ1fiEUlvE_Z4backIS0_EvOT_EUlvE_EvS3_OT0_",
            concat!(
                "void call<f(int)::{lambda()#1}&, back<f(int)::{lambda()#1}>(f(int)::{lambda()#1}&&)::{lambda()#1}>",
                "(f(int)::{lambda()#1}&, back<f(int)::{lambda()#1}>(f(int)::{lambda()#1}&&)::{lambda()#1}&&)",
            ),
        ),
    ] {
        assert_eq!(demangled(raw), name, "{raw}");
    }
}

#[test]
fn conversions_without_parameters_have_their_types() {
    for (raw, name) in [
        ("_ZN1BcvT_IiEEv", "B::operator int<int>"),
        ("_Z1fIiEvT_.part.0", "f<int>"),
        ("_ZTV1A", "vtable for A"),
    ] {
        assert_eq!(without_parameters(raw.as_bytes()).as_deref(), Some(name));
    }
}

/// A hostile name is read in bounded time, on the small stack of a thread of a pool.
#[test]
fn hostile_names_end_soon() {
    let deep = |begin: &str, part: &str, end: &str| format!("{begin}{}{end}", part.repeat(100_000));
    // Each conversion has two readings; each pack has two packs in it, and no element.
    let packs = (0..40).fold("_Z1fI1AIJEE".to_owned(), |name, n| {
        let s = char::from_digit(n % 36, 36).expect("a digit").to_ascii_uppercase();
        format!("{name}1AIJS{s}_S{s}_EE")
    });
    let hostile = [
        deep("_Z1f", "P", "i"),
        deep("_Z1f", "1AI", "i"),
        deep("_Z", "N", "1fEv"),
        deep("_Z1fIX", "nt", "Lb1EEEvv"),
        deep("_ZN1A", "cvT_I", "iEv"),
        deep("_Z", "Z1fvE", "1x"),
        deep("_Z1fI", "J", "EEvv"),
        deep("_Z1f", "i", ""),
        deep("_Z1fIJ", "i", "EEvDpDpDpT_"),
        deep("_ZN", "1a", "Ev"),
        deep("_Z1fv", ".cold", ""),
        packs + "EvT_",
        format!("_Z1f{}", "PFvS_".repeat(2_000)),
        "_Z99999999999999999999f".to_owned(),
        "_Z1fS99999999999999999999_".to_owned(),
        "_Z1fT99999999999999999999_".to_owned(),
        "_Z1fIT_EvT_".to_owned(),
        "_Z1fIJT_EEvDpT_".to_owned(),
    ];
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        for raw in hostile {
            let begun = Instant::now();
            let name = demangled(&raw);
            assert!(name == raw || name.len() <= super::super::MAX_LEN.max(3 * raw.len()));
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(2), "{took:?} for {}…", &raw[..raw.len().min(40)]);
        }
    });
    thread.expect("a thread").join().expect("no overflow");
}

proptest! {
    #[test]
    fn no_name_makes_a_panic(at in any::<proptest::sample::Index>(), other in any::<proptest::sample::Index>(), cut in 0_usize..60, from in 0_usize..60) {
        let (raw, with) = (at.get(&NAMES).0, other.get(&NAMES).0);
        demangled(&format!("{}{}", &raw[..cut.min(raw.len())], &with[from.min(with.len())..]));
    }

    #[test]
    fn no_letters_make_a_panic(raw in "_Z[A-Za-z0-9_.ü]{0,40}") {
        demangled(&raw);
    }
}
