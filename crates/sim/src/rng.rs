//! Random numbers from a seed, the same on every machine.

/// A stream of pseudo-random numbers: xoshiro256++ (Blackman and Vigna 2019), seeded by splitmix64.
///
/// It uses integer arithmetic only, and [`libm`] if a distribution needs a logarithm. The platform's own logarithm
/// differs in the last bit from machine to machine.
#[derive(Clone, Debug)]
pub struct SimRng {
    state: [u64; 4],
}

impl SimRng {
    /// The stream of this seed.
    pub fn seeded(seed: u64) -> SimRng {
        let mut seed = seed;
        SimRng {
            state: std::array::from_fn(|_| {
                seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                mixed(seed)
            }),
        }
    }

    /// A separate stream for part number `part` of a simulation. The draws of one part do not change those of another.
    pub(crate) fn of_part(seed: u64, part: u64) -> SimRng {
        SimRng::seeded(mixed(seed).wrapping_add(mixed(part ^ 0x5eed)))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let drawn = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        drawn
    }

    /// A number below `bound`, or 0 if that is 0. Its bias is below `bound` ÷ 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to but not 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns whether an event of this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// A draw from the exponential distribution of mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.share())
    }

    /// A draw from the standard normal distribution (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.share()));
        radius * libm::cos(std::f64::consts::TAU * self.share())
    }
}

/// splitmix64's finaliser: it maps neighbouring numbers to unrelated ones.
pub fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Zipf's law: outcome `n` of 0, 1, 2, … has weight 1 ÷ (n + 1)^`exponent`.
///
/// It draws by rejection-inversion (Hörmann and Derflinger 1996), without a table however many outcomes there are.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    outcomes: u64,
    exponent: f64,
    first: f64,
    last: f64,
    sure: f64,
}

impl Zipf {
    /// The law over this many outcomes, at least one.
    pub fn of(outcomes: u64, exponent: f64) -> Zipf {
        let outcomes = outcomes.max(1);
        let exponent = exponent.max(0.0);
        let height = libm::pow(2.0, -exponent);
        let law = Zipf {
            outcomes,
            exponent,
            first: area(exponent, 1.5) - 1.0,
            last: area(exponent, outcomes as f64 + 0.5),
            sure: 0.0,
        };
        Zipf {
            sure: 2.0 - inverse_area(exponent, area(exponent, 2.5) - height),
            ..law
        }
    }

    /// Draws an outcome.
    pub fn draw(&self, rng: &mut SimRng) -> u64 {
        loop {
            let under = self.last + rng.share() * (self.first - self.last);
            let x = inverse_area(self.exponent, under);
            let rank = ((x + 0.5) as u64).clamp(1, self.outcomes);
            let k = rank as f64;
            let height = || libm::pow(k, -self.exponent);
            if k - x <= self.sure || under >= area(self.exponent, k + 0.5) - height() {
                return rank - 1;
            }
        }
    }
}

/// The area under x^-exponent from 1 to `x`.
fn area(exponent: f64, x: f64) -> f64 {
    let log = libm::log(x);
    let power = (1.0 - exponent) * log;
    let slope = match power.abs() > 1e-8 {
        true => libm::expm1(power) / power,
        false => 1.0 + power / 2.0,
    };
    slope * log
}

/// The `x` up to which that area is `under`.
fn inverse_area(exponent: f64, under: f64) -> f64 {
    let power = (under * (1.0 - exponent)).max(-1.0);
    let slope = match power.abs() > 1e-8 {
        true => libm::log1p(power) / power,
        false => 1.0 - power / 2.0,
    };
    libm::exp(slope * under)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_stream_on_every_machine() {
        let mut rng = SimRng::seeded(1);
        let drawn = [rng.bits(), rng.bits(), rng.bits()];
        assert_eq!(
            drawn,
            [
                14_971_601_782_005_023_387,
                13_781_649_495_232_077_965,
                1_847_458_086_238_483_744
            ]
        );
        assert_ne!(SimRng::of_part(1, 0).bits(), SimRng::of_part(1, 1).bits());
    }

    #[test]
    fn zipf_draws_as_its_weights_say() {
        for exponent in [0.0, 0.8, 1.0, 1.4] {
            let weights: Vec<f64> = (1..=50).map(|n| f64::from(n).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            let law = Zipf::of(50, exponent);
            let mut rng = SimRng::seeded(7);
            let mut drawn = [0u32; 50];
            (0..200_000).for_each(|_| drawn[law.draw(&mut rng) as usize] += 1);
            for (count, weight) in drawn.iter().zip(&weights) {
                let expected = weight / total * 200_000.0;
                let allowed = 5.0 * expected.sqrt() + 5.0;
                assert!(
                    (f64::from(*count) - expected).abs() <= allowed,
                    "{exponent}: {drawn:?}"
                );
            }
        }
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut rng = SimRng::seeded(5);
        let drawn: Vec<f64> = (0..50_000).map(|_| rng.normal()).collect();
        let mean = drawn.iter().sum::<f64>() / 50_000.0;
        let square = drawn.iter().map(|n| n * n).sum::<f64>() / 50_000.0;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.03);
    }
}
